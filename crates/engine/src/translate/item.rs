//! An instruction of a superblock, with all that is known of it.
//!
//! Its bytes' layout is enough to copy it. What its operands are takes longer to find out than
//! all else, and most tools want to know it of few instructions: so that is found when it is
//! asked for.

use std::cell::OnceCell;

use iced_x86::{InstructionInfoFactory, Register};
use unspool_instructions::decode::{Encoding, Instruction, Kind};
use unspool_instructions::operands::{
    CacheControl, ExtendedStateSizes, FlagUse, InstructionFacts, MemoryOperand, MemoryOperands,
    RegisterUse, cache_control, flag_use, memory_operands, quick_flag_use, register_use,
    requested_components,
};

use super::reader::WINDOW;
use super::{Vdso, element_masks, state_sizes};

/// An instruction with all that is known of it.
pub struct Item {
    /// Its parts.
    pub layout: Instruction,
    /// The program's bytes from it on.
    pub bytes: [u8; WINDOW],
    /// Where it is in the program.
    pub pc: u64,
    decoded: OnceCell<iced_x86::Instruction>,
    /// Elsewhere, because superblocks are lists of these, and most have none.
    operation: OnceCell<Box<Operation>>,
    /// Whether the flags before the instruction may still be read.
    pub flags_live: bool,
    /// How the superblock goes on behind it.
    pub direction: BranchDirection,
    /// Whether it is left out.
    pub left_out: bool,
    /// The slot with the address that its operand in memory has instead of its own: see
    /// [`Item::fixed_operand`].
    pub elsewhere: Option<i32>,
}

/// What an instruction works on.
struct Operation {
    operands: MemoryOperands,
    cache_control: Option<CacheControl>,
    facts: InstructionFacts,
    uses: RegisterUse,
}

/// Where a superblock goes on behind an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchDirection {
    /// At the next instruction; if a branch is taken, the superblock is left.
    Next,
    /// At the target of the branch; if it is not taken, the superblock is left.
    Target,
}

/// What operands depend on beside their instruction.
pub(super) struct Surroundings<'a> {
    /// The instructions before it.
    pub(super) before: &'a [Item],
    pub(super) vdso: Vdso,
}

impl Item {
    pub(super) fn new(layout: Instruction, bytes: [u8; WINDOW], pc: u64) -> Item {
        Item {
            layout,
            bytes,
            pc,
            decoded: OnceCell::new(),
            operation: OnceCell::new(),
            flags_live: true,
            direction: BranchDirection::Next,
            left_out: false,
            elsewhere: None,
        }
    }

    /// Finds out what it works on.
    pub(super) fn examine(
        &self,
        surroundings: &Surroundings,
        factory: &mut InstructionInfoFactory,
    ) {
        self.operation
            .get_or_init(|| Box::new(Operation::of(self, surroundings, factory)));
    }

    /// Whether what it works on may not follow from its bytes alone. Masks may be known from
    /// instructions before it, as may the size of the state that `xsave` and its kin keep, and
    /// the vDSO's data is elsewhere.
    pub(super) fn depends_on(&self, surroundings: &Surroundings) -> bool {
        /// `xsave` and its kin, and the move under a mask.
        const OTHERS: [u8; 3] = [0xae, 0xc7, 0xf7];
        let is_simple = self.layout.encoding == Encoding::Legacy
            && match self.layout.map {
                0 => true,
                1 => !OTHERS.contains(&self.layout.opcode),
                _ => false,
            };
        !is_simple || self.layout.rip_relative && surroundings.vdso.holds(self.pc)
    }

    fn operation(&self) -> &Operation {
        self.operation.get_or_init(|| {
            let alone = Surroundings {
                before: &[],
                vdso: Vdso::default(),
            };
            Box::new(Operation::of(
                self,
                &alone,
                &mut InstructionInfoFactory::new(),
            ))
        })
    }

    /// All that its bytes say.
    #[inline]
    pub fn decoded(&self) -> &iced_x86::Instruction {
        self.decoded
            .get_or_init(|| decode_fully(&self.layout, &self.bytes, self.pc))
    }

    /// Its operands in memory.
    #[inline]
    pub fn operands(&self) -> &[MemoryOperand] {
        &self.operation().operands
    }

    /// What it asks of the caches.
    #[inline]
    pub fn cache_control(&self) -> Option<CacheControl> {
        self.operation().cache_control
    }

    /// What else there is to know of its accesses.
    #[inline]
    pub fn facts(&self) -> InstructionFacts {
        self.operation().facts
    }

    /// Which registers and flags it uses.
    #[inline]
    pub fn uses(&self) -> RegisterUse {
        self.operation().uses
    }

    /// Which flags it uses.
    #[inline]
    pub(super) fn flags(&self) -> FlagUse {
        quick_flag_use(&self.layout).unwrap_or_else(|| flag_use(self.decoded()))
    }

    #[inline]
    pub(super) fn next_pc(&self) -> u64 {
        self.pc + u64::from(self.layout.length)
    }

    /// Where the superblock goes on behind the instruction.
    #[inline]
    pub fn goes_on(&self) -> u64 {
        match self.direction {
            BranchDirection::Next => self.next_pc(),
            BranchDirection::Target => self.layout.target,
        }
    }

    /// Where a conditional branch goes that leaves the superblock.
    #[inline]
    pub fn side_exit(&self) -> Option<u64> {
        match (self.layout.kind, self.direction) {
            _ if self.left_out => None,
            (Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. }, BranchDirection::Next) => {
                Some(self.layout.target)
            }
            (Kind::Jcc { .. }, BranchDirection::Target) => Some(self.next_pc()),
            _ => None,
        }
    }
}

impl Operation {
    fn of(
        item: &Item,
        surroundings: &Surroundings,
        factory: &mut InstructionInfoFactory,
    ) -> Operation {
        let decoded = item.decoded();
        let mut operands = MemoryOperands::new();
        let sizes = sizes_for(decoded, surroundings);
        let facts = memory_operands(decoded, factory, sizes, &mut operands);
        let mut cache_control = cache_control(decoded);
        let line = match &mut cache_control {
            Some(CacheControl::Line(_, operand)) => Some(operand),
            _ => None,
        };
        for operand in operands.iter_mut().chain(line) {
            let absolute = operand.base == Register::None && operand.index == Register::None;
            if absolute && item.layout.rip_relative {
                let address = operand.displacement as u64;
                operand.displacement = surroundings.vdso.resolve(item.pc, address) as i64;
            }
        }
        let before = surroundings.before.iter().map(Item::decoded);
        element_masks::simplify_masks(before, &mut operands);
        Operation {
            operands,
            cache_control,
            facts,
            uses: register_use(decoded, factory),
        }
    }
}

/// How much memory the instruction uses if it is `xsave` or one of its kin. Others do not ask.
fn sizes_for(
    instruction: &iced_x86::Instruction,
    surroundings: &Surroundings,
) -> ExtendedStateSizes {
    use iced_x86::MemorySize::{Xsave, Xsave64};
    if !matches!(instruction.memory_size(), Xsave | Xsave64) {
        return ExtendedStateSizes::default();
    }
    let before = surroundings.before.iter().rev();
    let requested = requested_components(before.map(|item| (item.decoded(), item.uses().written)));
    match requested {
        Some(mask) => state_sizes::state_sizes().with_components(mask),
        None => state_sizes::permitted_state_sizes(),
    }
}

/// What is to be known of an instruction beyond its layout.
pub(super) fn decode_fully(layout: &Instruction, bytes: &[u8], pc: u64) -> iced_x86::Instruction {
    let bytes = &bytes[..usize::from(layout.length)];
    iced_x86::Decoder::with_ip(64, bytes, pc, iced_x86::DecoderOptions::NONE).decode()
}

/// The instructions that do not follow the one before them in the program: number and address.
pub fn turns(items: &[Item]) -> impl Iterator<Item = (u32, u64)> + '_ {
    let follows = items.windows(2).zip(1..);
    follows
        .filter(|(pair, _)| pair[0].next_pc() != pair[1].pc)
        .map(|(pair, number)| (number, pair[1].pc))
}
