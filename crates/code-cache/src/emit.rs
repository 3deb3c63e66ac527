//! A byte emitter for the few instructions that the engine adds to copied code.
//!
//! All of them leave the flags alone unless their name says otherwise.

mod address;
#[cfg(test)]
mod tests;

use unspool_kernel::layout::BRANCH_TABLE;

pub use self::address::Address;
use crate::address::CacheAddress;
use crate::exit::{Reason, Way};
use crate::slots::{HASH_SPILL, offset};

/// The number of a general-purpose register, as in ModRM (0 = rax … 15 = r15).
pub type Gpr = u8;

/// Numbers of the registers that are named in emitted code.
pub mod gpr {
    use super::Gpr;
    /// `rax`.
    pub const RAX: Gpr = 0;
    /// `rcx`.
    pub const RCX: Gpr = 1;
    /// `rdx`.
    pub const RDX: Gpr = 2;
    /// `rbx`.
    pub const RBX: Gpr = 3;
    /// `rsp`.
    pub const RSP: Gpr = 4;
    /// `rbp`.
    pub const RBP: Gpr = 5;
    /// `rsi`.
    pub const RSI: Gpr = 6;
    /// `rdi`.
    pub const RDI: Gpr = 7;
    /// `r11`.
    pub const R11: Gpr = 11;
}

/// The register that holds the target of an indirect branch on its way through the branch
/// table: of all registers the one in which compilers keep values across branches least.
pub const TARGET: Gpr = gpr::R11;
/// `jmp [r11 * 8 + branch table]`
pub(crate) const TABLE_JUMP: [u8; 8] = through_table(0x24);
/// `push [r11 * 8 + branch table]`
pub(crate) const TABLE_PUSH: [u8; 8] = through_table(0x34);

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

/// Writes machine code at a cursor in memory.
///
/// The memory must be writable up to `limit`; running past it panics, so callers check
/// the room for a whole fragment first.
pub struct Emitter {
    start: *mut u8,
    cursor: *mut u8,
    limit: *mut u8,
    /// Displacement of the slots from FS.
    slots: i32,
    /// Whether indirect branches go through hashed chains, and not through the branch table.
    pub(crate) hashed: bool,
}

impl Emitter {
    /// Starts at `cursor`.
    ///
    /// # Safety
    /// `cursor..limit` must be writable memory that nothing else writes meanwhile.
    pub unsafe fn new(cursor: *mut u8, limit: *mut u8, slots: i32) -> Emitter {
        Emitter {
            start: cursor,
            cursor,
            limit,
            slots,
            hashed: false,
        }
    }

    /// The address of the next byte. Where code is emitted elsewhere than in the cache, to be copied
    /// there, only distances between such addresses mean something.
    #[inline]
    pub fn here(&self) -> CacheAddress {
        CacheAddress::of_byte(self.cursor)
    }

    /// Where `size` bytes are that were emitted at an address.
    fn emitted(&mut self, at: CacheAddress, size: usize) -> *mut u8 {
        let back = self.here().bytes_since(at) as usize;
        let all = self.cursor as usize - self.start as usize;
        assert!(
            (size..=all).contains(&back),
            "only what is there is changed"
        );
        // SAFETY: so many bytes have been emitted.
        unsafe { self.cursor.sub(back) }
    }

    /// Bytes left.
    pub fn room(&self) -> usize {
        self.limit as usize - self.cursor as usize
    }

    /// Appends bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.room(),
            "the caller reserved room for the fragment"
        );
        // SAFETY: the range was checked against the limit; `new` promises that it is ours.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.cursor, bytes.len());
            self.cursor = self.cursor.add(bytes.len());
        }
    }

    /// Appends a 32-bit immediate.
    #[inline]
    pub fn imm32(&mut self, value: i32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Overwrites a 32-bit field that was emitted before.
    pub fn patch32(&mut self, at: CacheAddress, value: i32) {
        let field = self.emitted(at, size_of::<i32>());
        // SAFETY: the field lies in what this emitter has written.
        unsafe { std::ptr::write_unaligned(field.cast(), value) };
    }

    /// Overwrites a byte that was emitted before.
    pub fn patch8(&mut self, at: CacheAddress, value: u8) {
        let byte = self.emitted(at, 1);
        // SAFETY: the byte lies in what this emitter has written.
        unsafe { byte.write(value) };
    }

    fn slot_operand(&mut self, opcode: u8, register: Gpr, slot: i32) {
        let rex = 0x48 | (register >> 3) << 2;
        let modrm = 0x04 | (register & 7) << 3;
        self.bytes(&[0x64, rex, opcode, modrm, 0x25]);
        self.imm32(self.slots + slot);
    }

    /// `mov fs:[slot], register`
    pub fn store_slot(&mut self, slot: i32, register: Gpr) {
        self.slot_operand(0x89, register, slot);
    }

    /// `mov register, fs:[slot]`
    pub fn load_slot(&mut self, register: Gpr, slot: i32) {
        self.slot_operand(0x8b, register, slot);
    }

    /// `movzx register, byte fs:[slot]`
    pub fn load_slot_byte(&mut self, register: Gpr, slot: i32) {
        self.part_of_slot(&[0x40, 0x0f, 0xb6], register, slot);
    }

    /// `movzx register, word fs:[slot]`
    pub fn load_slot_half(&mut self, register: Gpr, slot: i32) {
        self.part_of_slot(&[0x40, 0x0f, 0xb7], register, slot);
    }

    /// `movsxd register, dword fs:[slot]`
    pub fn load_slot_signed(&mut self, register: Gpr, slot: i32) {
        self.part_of_slot(&[0x48, 0x63], register, slot);
    }

    fn part_of_slot(&mut self, opcode: &[u8], register: Gpr, slot: i32) {
        self.bytes(&[0x64, opcode[0] | (register >> 3) << 2]);
        self.bytes(&opcode[1..]);
        self.bytes(&[0x04 | (register & 7) << 3, 0x25]);
        self.imm32(self.slots + slot);
    }

    /// The displacement of a slot from FS.
    pub fn slot_displacement(&self, slot: i32) -> i32 {
        self.slots + slot
    }

    /// `mov dword fs:[slot], imm32`
    pub fn store_slot_imm32(&mut self, slot: i32, value: u32) {
        self.bytes(&[0x64, 0xc7, 0x04, 0x25]);
        self.imm32(self.slots + slot);
        self.imm32(value as i32);
    }

    /// An instruction `opcode /extension` on a slot, for instance `push`, `pop`, `jmp`, `xrstor`.
    pub fn on_slot(&mut self, opcode: &[u8], extension: u8, slot: i32) {
        self.bytes(&[0x64]);
        self.bytes(opcode);
        self.bytes(&[0x04 | extension << 3, 0x25]);
        self.imm32(self.slots + slot);
    }

    /// `add qword fs:[slot], amount`; sets the flags.
    pub fn add_to_slot(&mut self, slot: i32, amount: i32) {
        match i8::try_from(amount) {
            Ok(byte) => {
                self.on_slot(&[0x48, 0x83], 0, slot);
                self.bytes(&byte.to_le_bytes());
            }
            Err(_) => {
                self.on_slot(&[0x48, 0x81], 0, slot);
                self.imm32(amount);
            }
        }
    }

    /// `cmp dword fs:[slot], 0`; sets the flags.
    pub fn compare_slot_zero(&mut self, slot: i32) {
        self.on_slot(&[0x83], 7, slot);
        self.bytes(&[0]);
    }

    /// `cmp register, dword fs:[slot]` (32 bits); sets the flags.
    pub fn compare_register_slot(&mut self, register: Gpr, slot: i32) {
        self.bytes(&[
            0x64,
            0x40 | (register >> 3) << 2,
            0x3b,
            0x04 | (register & 7) << 3,
            0x25,
        ]);
        self.imm32(self.slots + slot);
    }

    /// `mov register, imm64`, in its shortest form.
    pub fn load_immediate(&mut self, register: Gpr, value: u64) {
        if u32::try_from(value).is_ok() {
            if register >= 8 {
                self.bytes(&[0x41]);
            }
            self.bytes(&[0xb8 | register & 7]);
            self.imm32(value as u32 as i32);
        } else {
            self.bytes(&[0x48 | register >> 3, 0xb8 | register & 7]);
            self.bytes(&value.to_le_bytes());
        }
    }

    /// A ModRM operand `[base + displacement]` with a 64-bit `opcode`.
    pub fn on_memory(&mut self, opcode: &[u8], register: Gpr, base: Gpr, displacement: i32) {
        self.bytes(&[0x48 | (register >> 3) << 2 | base >> 3]);
        self.bytes(opcode);
        self.memory_operand(register, base, displacement);
    }

    pub(super) fn memory_operand(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        let fields = (register & 7) << 3 | base & 7;
        let short = i8::try_from(displacement).ok();
        let with_base_rbp = base & 7 == 5;
        match short {
            Some(0) if !with_base_rbp => self.modrm_base(fields, base, &[]),
            Some(byte) => self.modrm_base(0x40 | fields, base, &byte.to_le_bytes()),
            None => self.modrm_base(0x80 | fields, base, &displacement.to_le_bytes()),
        }
    }

    fn modrm_base(&mut self, modrm: u8, base: Gpr, displacement: &[u8]) {
        self.bytes(&[modrm]);
        if base & 7 == 4 {
            self.bytes(&[0x24]);
        }
        self.bytes(displacement);
    }

    /// `mov [base + displacement], register`
    pub fn store(&mut self, base: Gpr, displacement: i32, register: Gpr) {
        self.on_memory(&[0x89], register, base, displacement);
    }

    /// `mov [base + displacement], register`, its lowest `size` bytes: 1, 2, 4 or 8.
    pub fn store_part(&mut self, base: Gpr, displacement: i32, register: Gpr, size: u8) {
        let opcode = self.begin_part(0x88, register, base, size);
        self.bytes(&[opcode]);
        self.memory_operand(register, base, displacement);
    }

    /// `mov [base + displacement], value`, `size` bytes (1, 2, 4, or 8 with the sign extended).
    pub fn store_constant_part(&mut self, base: Gpr, displacement: i32, value: i32, size: u8) {
        let opcode = self.begin_part(0xc6, 0, base, size);
        self.bytes(&[opcode]);
        self.memory_operand(0, base, displacement);
        self.bytes(&value.to_le_bytes()[..usize::from(size.min(4))]);
    }

    /// `setcc byte [base + displacement]`
    pub fn store_condition(&mut self, condition: u8, base: Gpr, displacement: i32) {
        self.bytes(&[0x40 | base >> 3, 0x0f, 0x90 | condition]);
        self.memory_operand(0, base, displacement);
    }

    /// Prefixes for an operand of so many bytes. Returns the opcode, given the one for bytes.
    fn begin_part(&mut self, opcode: u8, register: Gpr, base: Gpr, size: u8) -> u8 {
        if size == 2 {
            self.bytes(&[0x66]);
        }
        let wide = if size == 8 { 0x48 } else { 0x40 };
        self.bytes(&[wide | (register >> 3) << 2 | base >> 3]);
        opcode | u8::from(size != 1)
    }

    /// `mov register, [base + displacement]`
    pub fn load(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        self.on_memory(&[0x8b], register, base, displacement);
    }

    /// `mov qword [base + displacement], imm32` (sign-extended)
    pub fn store_immediate(&mut self, base: Gpr, displacement: i32, value: i32) {
        self.on_memory(&[0xc7], 0, base, displacement);
        self.imm32(value);
    }

    /// `lea register, [base + displacement]`
    pub fn lea(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        self.on_memory(&[0x8d], register, base, displacement);
    }

    /// `mov to, from` (64 bits)
    pub fn copy(&mut self, to: Gpr, from: Gpr) {
        self.bytes(&[
            0x48 | (from >> 3) << 2 | to >> 3,
            0x89,
            0xc0 | (from & 7) << 3 | to & 7,
        ]);
    }

    /// `jmp rel32` to a known address.
    pub fn jump(&mut self, target: CacheAddress) {
        self.bytes(&[0xe9]);
        self.relative(target);
    }

    /// `jcc rel32` to a known address; `condition` is the low nibble of the opcode.
    pub fn jump_if(&mut self, condition: u8, target: CacheAddress) {
        self.bytes(&[0x0f, 0x80 | condition]);
        self.relative(target);
    }

    /// The cache is smaller than 2 GiB, so that any of its addresses is in reach of any other.
    fn relative(&mut self, target: CacheAddress) {
        let distance = target.distance_from(self.here().plus(4));
        self.imm32(distance as i32);
    }

    /// A `jmp` (or, with a condition, `jcc`) whose 32-bit field can be patched while other
    /// threads run it: the field does not cross a cache line. Returns the field's address.
    pub fn patchable_jump(&mut self, condition: Option<u8>, target: CacheAddress) -> CacheAddress {
        let opcode_length = if condition.is_some() { 2 } else { 1 };
        let line_offset = self.here().plus(opcode_length).line_offset();
        if line_offset > 60 {
            self.nops(64 - line_offset as usize);
        }
        match condition {
            Some(condition) => self.jump_if(condition, target),
            None => self.jump(target),
        }
        self.last_field()
    }

    /// The 32-bit field with which the last instruction ends.
    fn last_field(&self) -> CacheAddress {
        self.here().minus(4)
    }

    /// `push imm32; ret` to a cache address, with a field that can be patched as that of
    /// [`Emitter::patchable_jump`]; it holds the address. Returns the field's address.
    pub(crate) fn patchable_return(&mut self, target: CacheAddress) -> CacheAddress {
        let line_offset = self.here().plus(1).line_offset();
        if line_offset > 60 {
            self.nops(64 - line_offset as usize);
        }
        self.bytes(&[0x68]);
        let field = self.here();
        self.imm32(i32::try_from(target.get()).expect("the cache lies below 2 GiB"));
        self.bytes(&[0xc3]);
        field
    }

    /// Instructions that do nothing, `count` bytes long.
    pub fn nops(&mut self, count: usize) {
        const NOPS: [&[u8]; 5] = [
            &[],
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
        ];
        let mut left = count;
        while left > 0 {
            let length = left.min(4);
            self.bytes(NOPS[length]);
            left -= length;
        }
    }

    /// `push imm64`: pushes a return address of the program.
    pub fn push_immediate(&mut self, value: u64) {
        self.bytes(&[0x68]);
        self.imm32(value as u32 as i32);
        let sign_extended = value as u32 as i32 as i64 as u64;
        if sign_extended != value {
            self.store_high_half(value);
        }
    }

    /// `jmp [r11 * 8 + branch table]`, or the way through a hashed chain.
    pub fn jump_through_table(&mut self) {
        if self.hashed {
            self.go_through_chain(Way::Jump, self.here());
        } else {
            self.through_table(TABLE_JUMP);
        }
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

    /// `push [r11 * 8 + branch table]; ret`: a jump that the processor predicts from the
    /// calls before it. Or the way through a hashed chain.
    pub fn return_through_table(&mut self) {
        if self.hashed {
            return self.go_through_chain(Way::Return, self.here());
        }
        self.through_table(TABLE_PUSH);
        self.bytes(&[0xc3]);
    }

    /// `push register`
    pub fn push(&mut self, register: Gpr) {
        if register >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0x50 | register & 7]);
    }

    /// `pop register`
    pub fn pop(&mut self, register: Gpr) {
        if register >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0x58 | register & 7]);
    }

    /// `call rel32` to where [`Emitter::land`] will be. Returns the field's address.
    pub fn call_forward(&mut self) -> CacheAddress {
        self.bytes(&[0xe8, 0, 0, 0, 0]);
        self.last_field()
    }

    /// `jcc rel32` to where [`Emitter::land`] will be. Returns the field's address.
    pub fn jump_forward_if(&mut self, condition: u8) -> CacheAddress {
        self.bytes(&[0x0f, 0x80 | condition, 0, 0, 0, 0]);
        self.last_field()
    }

    /// Puts the status flags into rax: `lahf; seto al`.
    pub fn take_flags(&mut self) {
        self.bytes(&[0x9f, 0x0f, 0x90, 0xc0]);
    }

    /// Brings back the status flags that [`Emitter::take_flags`] has put into rax:
    /// `add al, 127; sahf`.
    pub fn bring_back_flags(&mut self) {
        self.bytes(&[0x04, 0x7f, 0x9e]);
    }

    /// `jmp rel32` to where [`Emitter::land`] will be. Returns the field's address.
    pub fn jump_forward(&mut self) -> CacheAddress {
        self.bytes(&[0xe9, 0, 0, 0, 0]);
        self.last_field()
    }

    /// Points a 32-bit field that was emitted before to the next byte.
    pub fn land(&mut self, field: CacheAddress) {
        let distance = self.here().bytes_since(field.plus(4));
        self.patch32(field, distance as i32);
    }

    /// Points an 8-bit field that was emitted before to the next byte.
    pub fn land_short(&mut self, field: CacheAddress) {
        let length = self.here().bytes_since(field.plus(1));
        let length = i8::try_from(length).expect("a short jump is short");
        self.patch8(field, length as u8);
    }

    /// `mov qword [rsp], imm64`: replaces a return address by one of the program.
    pub fn store_return_address(&mut self, value: u64) {
        let sign_extended = value as u32 as i32 as i64 as u64;
        if sign_extended == value {
            self.bytes(&[0x48]);
        }
        self.bytes(&[0xc7, 0x04, 0x24]);
        self.imm32(value as u32 as i32);
        if sign_extended != value {
            self.store_high_half(value);
        }
    }

    /// `mov dword [rsp + 4], high half`
    fn store_high_half(&mut self, value: u64) {
        self.bytes(&[0xc7, 0x44, 0x24, 0x04]);
        self.imm32((value >> 32) as u32 as i32);
    }

    /// `mov dword fs:[exit], imm32`: says why the cache is left.
    pub(crate) fn give_reason(&mut self, reason: Reason) {
        self.store_slot_imm32(offset::EXIT, reason.number());
    }

    /// Leaves the cache: names the exit and jumps to the exit gate.
    pub fn leave(&mut self, reason: Reason, gate: CacheAddress) {
        self.give_reason(reason);
        self.jump(gate);
    }
}

impl Emitter {
    /// `xor register, fs:[slot]`, 4 bytes; sets the flags.
    pub fn xor_slot(&mut self, register: Gpr, slot: i32) {
        self.on_slot(&[0x40 | (register >> 3) << 2, 0x33], register & 7, slot);
    }

    /// `test register, mask`, 4 bytes; sets the flags.
    pub fn test(&mut self, register: Gpr, mask: u32) {
        self.bytes(&[0x40 | register >> 3, 0xf7, 0xc0 | register & 7]);
        self.imm32(mask as i32);
    }

    /// `shl` or, to the right, `shr register, count` (64 bits); sets the flags.
    pub fn shift_by(&mut self, right: bool, register: Gpr, count: u8) {
        let extension = if right { 0xe8 } else { 0xe0 };
        self.bytes(&[0x48 | register >> 3, 0xc1, extension | register & 7, count]);
    }

    /// `shlx` or, to the right, `shrx register, register, count` (64 bits): leaves the flags.
    pub fn shift(&mut self, right: bool, register: Gpr, count: Gpr) {
        let high = register >> 3;
        let first = 0xe2 ^ high << 7 ^ high << 5;
        let prefix = if right { 3 } else { 1 };
        let second = 0x80 | (!count & 15) << 3 | prefix;
        let modrm = 0xc0 | (register & 7) << 3 | register & 7;
        self.bytes(&[0xc4, first, second, 0xf7, modrm]);
    }

    /// `movzx to, byte [base + index]`
    pub fn load_byte_indexed(&mut self, to: Gpr, base: Gpr, index: Gpr) {
        let rex = 0x48 | (to >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        let sib = (index & 7) << 3 | base & 7;
        // With a displacement: rbp and r13 cannot be bases without.
        self.bytes(&[rex, 0x0f, 0xb6, 0x44 | (to & 7) << 3, sib, 0]);
    }

    /// `mov to, from` (32 bits, zero-extended)
    pub fn zero_extend(&mut self, to: Gpr, from: Gpr) {
        let rex = 0x40 | (from >> 3) << 2 | to >> 3;
        self.bytes(&[rex, 0x89, 0xc0 | (from & 7) << 3 | to & 7]);
    }
}
