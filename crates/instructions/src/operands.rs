//! Which memory an instruction accesses, and which registers and flags it uses.
//!
//! The ground is `iced-x86`'s knowledge of instructions. Added is what a tracer needs beyond
//! it: the extent of operands whose size is known only at run time (repeated strings, masks,
//! gathers, bit strings), which operands iced lists although nothing is accessed, and which
//! instructions are atomic. All addresses are as seen *before* the instruction: `push`
//! writes `[rsp - 8]`.
//!
//! Not listed: what the processor accesses on its own behalf (shadow stacks, descriptor
//! tables, page tables), and privileged instructions beyond what iced says of them.

mod cache_control;
mod extended_state;
mod flags;
mod registers;
mod simple;
pub mod state_component;
#[cfg(test)]
mod tests;
mod vector;

use iced_x86::{
    Code, CodeSize, Instruction, InstructionInfoFactory, MemorySize, Mnemonic, OpAccess, Register,
    UsedMemory,
};
use smallvec::SmallVec;
use unspool_events::AccessKind;

use crate::decode::Segment;
pub use cache_control::{CacheControl, cache_control, is_non_temporal};
pub use extended_state::{ExtendedStateSizes, requested_components};
pub use flags::{FlagUse, flag_use, quick_flag_use};
pub use registers::{RegisterUse, register_use};

/// One operand in memory. Its address is the sum of `base`, `index` × `scale` and
/// `displacement`, cut to 32 bits if `address_size_32`, plus the base of `segment`; `shape`
/// may add to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryOperand {
    /// Whether it is read or written; what is read and written is listed twice.
    pub kind: AccessKind,
    /// Bytes of one element; of the whole operand if it is [`Shape::Plain`].
    pub size: u32,
    /// A 64-bit (or, with `address_size_32`, 32-bit) register, or none.
    pub base: Register,
    /// Likewise. In `xlat` it is `al`, zero-extended.
    pub index: Register,
    /// 1, 2, 4 or 8: factor of `index`, or of the vector index of [`Shape::Indexed`].
    pub scale: u8,
    /// The constant part; of an operand relative to the instruction pointer, the whole
    /// address.
    pub displacement: i64,
    /// FS or GS where its base counts.
    pub segment: Option<Segment>,
    /// Whether the sum is cut to 32 bits.
    pub address_size_32: bool,
    /// What else there is to know.
    pub shape: Shape,
}

impl MemoryOperand {
    /// Whether another one is at the same place: it is this one, or what the instruction does there
    /// besides.
    ///
    /// ```
    /// use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
    /// use unspool_instructions::operands::{ExtendedStateSizes, MemoryOperands, memory_operands};
    ///
    /// // add dword [rax], 1
    /// let decoded = Decoder::with_ip(64, &[0x83, 0, 1], 0, DecoderOptions::NONE).decode();
    /// let mut all = MemoryOperands::new();
    /// let sizes = ExtendedStateSizes::default();
    /// memory_operands(&decoded, &mut InstructionInfoFactory::new(), sizes, &mut all);
    /// assert_eq!(all.len(), 2);
    /// // Counted by places, there is one.
    /// let is_new = |&at: &usize| !all[..at].iter().any(|it| it.is_at(&all[at]));
    /// assert_eq!((0..all.len()).filter(is_new).count(), 1);
    /// ```
    #[must_use]
    pub fn is_at(&self, other: &MemoryOperand) -> bool {
        let as_other = MemoryOperand {
            kind: other.kind,
            ..*self
        };
        as_other == *other
    }
}

/// How an operand's elements lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `size` bytes at the address.
    Plain,
    /// A repeated string instruction: as many elements as `count` is less after the
    /// instruction than before, upwards from the address or, with the direction flag,
    /// downwards.
    Repeat {
        /// rcx or ecx.
        count: Register,
        /// The pointer: rsi or rdi, or their lower halves.
        pointer: Register,
    },
    /// `bt` and its kin with a bit number in a register: the number, signed, divided by
    /// 8 × `size` (rounding down), times `size`, is added to the address.
    BitString {
        /// The register with the bit number; `size` bytes wide.
        number: Register,
    },
    /// A gather or scatter: element i is at the address plus index i times `scale`, and is
    /// accessed if the mask says so.
    Indexed {
        /// The vector register with the indexes.
        index: Register,
        /// Bytes of one index, which is signed: 4 or 8.
        index_size: u8,
        /// How many elements.
        count: u8,
        /// Which elements.
        mask: ElementMask,
    },
    /// Adjacent elements, each accessed if the mask says so.
    Masked {
        /// How many elements.
        count: u8,
        /// Which elements.
        mask: ElementMask,
    },
    /// One access of `size` bytes, made if any of the mask's first `count` elements is set.
    AnyOf {
        /// How many elements of the mask count.
        count: u8,
        /// The mask.
        mask: ElementMask,
    },
    /// Expand-load or compress-store: as many adjacent elements, from the address upwards,
    /// as the mask has bits set among its first `count`.
    Compressed {
        /// How many elements of the mask count.
        count: u8,
        /// The mask register.
        mask: Register,
    },
    /// `size` bytes at the address rounded down to a multiple of `size`.
    AlignedDown,
    /// A tile: rows, as the tile configuration says, `stride` apart. `size` is 0.
    Tile {
        /// The tile register.
        tile: Register,
        /// The register that holds the bytes between rows (zero if none), times `scale`.
        stride: Register,
    },
}

/// What says which elements are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementMask {
    /// All elements.
    All,
    /// Bit i of a mask register.
    Bits(Register),
    /// The top bit of element i of a vector (or MMX) register.
    Vector {
        /// The register.
        register: Register,
        /// Bytes of one of its elements: 1, 4 or 8.
        size: u8,
    },
}

/// Facts about an instruction as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InstructionFacts {
    /// Its memory accesses are one atomic operation: locked, `xchg` with memory, and the few
    /// that are always atomic.
    pub atomic: bool,
    /// A compare-and-swap (`cmpxchg` and its wide forms): afterwards ZF tells whether it
    /// succeeded. It writes in both cases.
    pub compare_exchange: bool,
    /// The sizes listed are upper bounds (`xsave` and its kin), or accesses of an obscure
    /// instruction may be missing.
    pub inexact: bool,
}

/// The memory operands of an instruction: few have more than two.
pub type MemoryOperands = SmallVec<[MemoryOperand; 2]>;

/// Lists the memory operands of `instruction` in `out` (cleared first): reads before writes.
pub fn memory_operands(
    instruction: &Instruction,
    info: &mut InstructionInfoFactory,
    state_sizes: ExtendedStateSizes,
    out: &mut MemoryOperands,
) -> InstructionFacts {
    out.clear();
    let facts = facts_of(instruction);
    if accesses_nothing(instruction) || simple_operands(instruction, out).is_some() {
        return facts;
    }
    looked_up_operands(instruction, info, state_sizes, facts, out)
}

/// Lists the operands of a simple instruction; nothing happens if it is not simple.
fn simple_operands(instruction: &Instruction, out: &mut MemoryOperands) -> Option<()> {
    let simple = simple::simple_use(instruction)?;
    if let Some(kind) = simple.stack {
        out.push(simple::stack_operand(kind));
    } else if let Some(index) = vector::memory_operand_index(instruction) {
        let access = simple.operands[index as usize];
        let operand = simple::named_operand(instruction)?;
        for kind in [AccessKind::Read, AccessKind::Write] {
            if does(access, kind) {
                out.push(MemoryOperand { kind, ..operand });
            }
        }
    }
    Some(())
}

/// Lists the operands that iced's tables give.
fn looked_up_operands(
    instruction: &Instruction,
    info: &mut InstructionInfoFactory,
    state_sizes: ExtendedStateSizes,
    mut facts: InstructionFacts,
    out: &mut MemoryOperands,
) -> InstructionFacts {
    let only_memory = iced_x86::InstructionInfoOptions::NO_REGISTER_USAGE;
    let used = info.info_options(instruction, only_memory).used_memory();
    for kind in [AccessKind::Read, AccessKind::Write] {
        for memory in used {
            if does(memory.access(), kind) {
                let mut operand = plain_operand(memory, kind);
                refine(instruction, memory, state_sizes, &mut operand, &mut facts);
                out.push(operand);
            }
        }
    }
    if instruction.mnemonic() == Mnemonic::Clzero {
        out.push(cache_line_operand(instruction));
    }
    facts
}

/// Facts that need no look at the operands.
fn facts_of(instruction: &Instruction) -> InstructionFacts {
    let mnemonic = instruction.mnemonic();
    let has_memory = vector::memory_operand_index(instruction).is_some();
    let compare_exchange = matches!(
        mnemonic,
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b
    ) && has_memory;
    let always_atomic = match mnemonic {
        Mnemonic::Xchg => has_memory,
        Mnemonic::Aadd | Mnemonic::Aand | Mnemonic::Aor | Mnemonic::Axor => true,
        _ => is_compare_and_add(instruction.code()),
    };
    InstructionFacts {
        atomic: has_memory && instruction.has_lock_prefix() || always_atomic,
        compare_exchange,
        inexact: false,
    }
}

/// `cmpccxadd`: sixteen mnemonics, whose codes are contiguous.
fn is_compare_and_add(code: Code) -> bool {
    let first = Code::VEX_Cmpoxadd_m32_r32_r32 as u16;
    let last = Code::VEX_Cmpnlexadd_m64_r64_r64 as u16;
    (first..=last).contains(&(code as u16))
}

/// Instructions that name memory, or for which iced lists some, but that touch none as far
/// as the program can tell.
fn accesses_nothing(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Lea
            | Mnemonic::Nop
            | Mnemonic::Clflush
            | Mnemonic::Clflushopt
            | Mnemonic::Clwb
            | Mnemonic::Cldemote
            | Mnemonic::Monitor
            | Mnemonic::Monitorx
            | Mnemonic::Umonitor
            // Memory protection extensions are gone from processors and kernels alike: these
            // are no-operations.
            | Mnemonic::Bndmk
            | Mnemonic::Bndcl
            | Mnemonic::Bndcu
            | Mnemonic::Bndcn
            | Mnemonic::Bndmov
            | Mnemonic::Bndldx
            | Mnemonic::Bndstx
    )
}

/// Whether an access of iced's includes one of `kind`.
fn does(access: OpAccess, kind: AccessKind) -> bool {
    match kind {
        AccessKind::Read => matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ),
        // A compare-and-swap that fails writes the old value back.
        AccessKind::Write => matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ),
    }
}

/// The segment whose base is added to an address.
fn segment(register: Register) -> Option<Segment> {
    match register {
        Register::FS => Some(Segment::Fs),
        Register::GS => Some(Segment::Gs),
        _ => None,
    }
}

/// What iced says of a memory operand.
fn plain_operand(memory: &UsedMemory, kind: AccessKind) -> MemoryOperand {
    MemoryOperand {
        kind,
        size: memory.memory_size().size() as u32,
        base: memory.base(),
        index: memory.index(),
        scale: memory.scale() as u8,
        displacement: memory.displacement() as i64,
        segment: segment(memory.segment()),
        address_size_32: memory.address_size() == CodeSize::Code32,
        shape: Shape::Plain,
    }
}

/// Adds what iced leaves open.
fn refine(
    instruction: &Instruction,
    memory: &UsedMemory,
    state_sizes: ExtendedStateSizes,
    operand: &mut MemoryOperand,
    facts: &mut InstructionFacts,
) {
    if instruction.has_op_mask() || memory.vsib_size() != 0 {
        vector::refine_masked(instruction, memory, operand);
        return;
    }
    match instruction.mnemonic() {
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
            if instruction.op1_register() != Register::None =>
        {
            operand.shape = Shape::BitString {
                number: instruction.op1_register(),
            };
        }
        Mnemonic::Maskmovq
        | Mnemonic::Maskmovdqu
        | Mnemonic::Vmaskmovdqu
        | Mnemonic::Vmaskmovps
        | Mnemonic::Vmaskmovpd
        | Mnemonic::Vpmaskmovd
        | Mnemonic::Vpmaskmovq => vector::refine_vector_masked(instruction, operand),
        Mnemonic::Tileloadd | Mnemonic::Tileloaddt1 | Mnemonic::Tilestored => {
            refine_tile(instruction, operand);
        }
        _ if instruction.is_string_instruction() => {
            let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
            if repeats {
                refine_repeat(instruction, operand);
            }
        }
        _ if operand.size == 0 => {
            operand.size = match memory.memory_size() {
                MemorySize::Xsave | MemorySize::Xsave64 => extended_state(instruction, state_sizes),
                _ => 0,
            };
            facts.inexact = true;
        }
        _ => {}
    }
}

/// Bytes that `xsave` or one of its kin moves at most, as far as that is certain: of an area that is
/// restored the memory says in which format it is, so it counts as the shorter one. What lies behind
/// that may be another's.
fn extended_state(instruction: &Instruction, sizes: ExtendedStateSizes) -> u32 {
    match instruction.mnemonic() {
        Mnemonic::Xsavec | Mnemonic::Xsavec64 | Mnemonic::Xsaves | Mnemonic::Xsaves64 => {
            sizes.compacted
        }
        Mnemonic::Xsave | Mnemonic::Xsave64 | Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64 => {
            sizes.standard
        }
        _ => sizes.of_either_format(),
    }
}

/// A repeated string instruction: iced gives no size, because of the repetition.
fn refine_repeat(instruction: &Instruction, operand: &mut MemoryOperand) {
    operand.size = match instruction.memory_size() {
        MemorySize::Unknown => 0,
        size => size.size() as u32,
    };
    let count = if operand.address_size_32 {
        Register::ECX
    } else {
        Register::RCX
    };
    operand.shape = Shape::Repeat {
        count,
        pointer: operand.base,
    };
}

/// A tile's rows are a stride apart, which the index register gives. (iced lists its memory
/// without index.)
fn refine_tile(instruction: &Instruction, operand: &mut MemoryOperand) {
    let register = match operand.kind {
        AccessKind::Read => instruction.op0_register(),
        AccessKind::Write => instruction.op1_register(),
    };
    operand.shape = Shape::Tile {
        tile: register,
        stride: instruction.memory_index(),
    };
    operand.index = Register::None;
    operand.scale = instruction.memory_index_scale() as u8;
}

/// `clzero` writes the cache line in which rax points.
fn cache_line_operand(instruction: &Instruction) -> MemoryOperand {
    let base = match instruction.code() {
        Code::Clzerod => Register::EAX,
        _ => Register::RAX,
    };
    MemoryOperand {
        kind: AccessKind::Write,
        size: 64,
        base,
        index: Register::None,
        scale: 1,
        displacement: 0,
        segment: segment(instruction.segment_prefix()),
        address_size_32: base == Register::EAX,
        shape: Shape::AlignedDown,
    }
}
