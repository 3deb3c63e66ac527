//! Indirect branches: through the branch table, or through a hashed chain.

use unspool_kernel::layout::BRANCH_TABLE;

use super::{Emitter, Gpr, gpr};
use crate::address::CacheAddress;
use crate::exit::Way;
use crate::slots::{HASH_SPILL, offset};

/// The register that holds the target of an indirect branch on its way through the branch
/// table: of all registers the one in which compilers keep values across branches least.
pub const TARGET: Gpr = gpr::R11;
/// `jmp [r11 * 8 + branch table]`
const TABLE_JUMP: [u8; 8] = through_table(0x24);
/// `push [r11 * 8 + branch table]`
const TABLE_PUSH: [u8; 8] = through_table(0x34);

/// What becomes of the first or the second where it has met targets that the table does not
/// cover: `jmp rel32`, and what nobody executes.
const CROSSING: (u8, [u8; 3]) = (0xe9, [0x0f, 0x0b, 0xcc]);

/// How an indirect branch at a place of the cache goes through the branch table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableBranch {
    /// `TABLE_JUMP`
    Jump,
    /// `TABLE_PUSH`, and `ret`.
    Return,
    /// Not any more.
    Crossing,
}

impl TableBranch {
    /// The instruction, before it was replaced.
    pub fn bytes(self) -> [u8; 8] {
        match self {
            TableBranch::Jump => TABLE_JUMP,
            TableBranch::Return => TABLE_PUSH,
            TableBranch::Crossing => unreachable!("what a branch was is noted before"),
        }
    }

    /// What the instruction with these bytes is.
    pub fn of(bytes: [u8; 8]) -> Option<TableBranch> {
        match bytes {
            TABLE_JUMP => Some(TableBranch::Jump),
            TABLE_PUSH => Some(TableBranch::Return),
            [first, .., a, b, c] if (first, [a, b, c]) == CROSSING => Some(TableBranch::Crossing),
            _ => None,
        }
    }

    /// The bytes of the jump from `at` to what leads both through the table's range and beyond.
    pub(crate) fn crossing(at: CacheAddress, to: CacheAddress) -> [u8; 8] {
        let (opcode, [a, b, c]) = CROSSING;
        let [d, e, f, g] = to.distance_from(at.plus(5)).to_le_bytes();
        [opcode, d, e, f, g, a, b, c]
    }
}

const fn through_table(modrm: u8) -> [u8; 8] {
    let table = (BRANCH_TABLE as u32).to_le_bytes();
    [
        0x42, 0xff, modrm, 0xdd, table[0], table[1], table[2], table[3],
    ]
}

impl Emitter {
    /// `jmp [r11 * 8 + branch table]`, or the way through a hashed chain.
    pub fn jump_through_table(&mut self) {
        if self.hashed {
            self.go_through_chain(Way::Jump, self.here());
        } else {
            self.through_table(TABLE_JUMP);
        }
    }

    /// `push [r11 * 8 + branch table]; ret`: a jump that the processor predicts from the
    /// calls before it. Or the way through a hashed chain.
    pub fn return_through_table(&mut self) {
        if self.hashed {
            return self.go_through_chain(Way::Return, self.here());
        }
        self.through_table(TABLE_PUSH);
        self.bytes(&[0xc3]);
    }

    /// Emits an instruction that another one can replace while threads run it: it does not
    /// cross a cache line.
    fn through_table(&mut self, instruction: [u8; 8]) {
        let line_offset = self.here().line_offset();
        if line_offset > 56 {
            self.nops(64 - line_offset as usize);
        }
        self.bytes(&instruction);
    }

    /// `mov fs:[spill], rcx; movzx ecx, r11w; jmp [rcx * 8 + chains]`, after noting which
    /// branch this is: the processor may refuse its target.
    pub(crate) fn go_through_chain(&mut self, way: Way, branch: CacheAddress) {
        self.store_slot_imm32(offset::BRANCH, branch.get() as u32);
        self.store_slot(offset::spill(HASH_SPILL), gpr::RCX);
        self.bytes(&[0x41, 0x0f, 0xb7, 0xcb, 0xff, 0x24, 0xcd]);
        self.imm32(way.chains() as u32 as i32);
    }
}
