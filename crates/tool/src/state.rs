//! Sources for the state of the processor beside general registers.

use unspool_instrument as instrument;

use crate::argument::{Address, Argument, Word, word_argument};

/// The status flags and the direction flag, each where RFLAGS has it; all other bits are 0. Before an
/// instruction they are what it finds, behind it what it leaves. Where an instruction leaves flags
/// undefined, they are what the processor makes of them.
///
/// Only for tools that say [`Tool::KEEPS_FLAGS`](crate::Tool::KEEPS_FLAGS).
///
/// ```
/// use unspool_tool::{Address, Branch, Buffer, Flags, InstructionPointer, Superblock, Tool};
///
/// /// What conditional branches find.
/// struct Decisions {
///     log: Buffer<Decisions, (Address, u16)>,
/// }
///
/// impl Tool for Decisions {
///     type Thread = ();
///     const KEEPS_FLAGS: bool = true;
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         let instructions = superblock.instructions();
///         for branch in instructions.filter(|it| it.branch() == Some(Branch::Conditional)) {
///             let flags = unspool_tool::narrow::<u16, _>(Flags);
///             branch.before().append(self.log, (InstructionPointer, flags));
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Flags;

word_argument!(Flags => u64, |_, _| instrument::Argument::Flags);

/// MXCSR: rounding, exceptions and flags of floating-point arithmetic in vectors.
#[derive(Debug, Clone, Copy)]
pub struct VectorControl;

word_argument!(VectorControl => u32, |_, _| instrument::Argument::VectorControl);

/// The base of the program's segment FS, by which a thread finds what is its own.
#[derive(Debug, Clone, Copy)]
pub struct FsBase;

word_argument!(FsBase => Address, |_, _| instrument::Argument::FsBase);

/// The low bytes of a vector register. See [`vector_register`].
#[derive(Debug, Clone, Copy)]
pub struct VectorRegister<const BYTES: usize>(u8);

/// A vector register, by its number, 0 to 31: its lowest 16 bytes (xmm), 32 (ymm) or all 64 (zmm), the
/// lowest first. What the processor does not have is zero. In an entry it is a field of as many bytes.
///
/// ```
/// use unspool_tool::{Address, Buffer, InstructionPointer, Superblock, Tool, iced_x86};
/// use unspool_tool::vector_register;
///
/// /// What is multiplied by what.
/// struct Factors {
///     log: Buffer<Factors, (Address, [u8; 16], [u8; 16])>,
/// }
///
/// impl Tool for Factors {
///     type Thread = ();
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         for instruction in superblock.instructions() {
///             let decoded = instruction.decoded();
///             if decoded.mnemonic() == iced_x86::Mnemonic::Mulpd {
///                 let [left, right] = [decoded.op0_register(), decoded.op1_register()];
///                 // One in memory has the number 0 here.
///                 let [left, right] = [left, right].map(|it| it.number() as u8);
///                 let entry = (InstructionPointer, vector_register(left), vector_register(right));
///                 instruction.before().append(self.log, entry);
///             }
///         }
///     }
/// }
/// ```
///
/// It cannot be a field of an entry that is appended on a condition
/// ([`append_if`](crate::Point::append_if)).
///
/// # Panics
/// If there is no such register.
#[must_use]
#[track_caller]
pub fn vector_register<const BYTES: usize>(number: u8) -> VectorRegister<BYTES> {
    const {
        assert!(
            matches!(BYTES, 16 | 32 | 64),
            "registers have 16, 32 or 64 bytes"
        )
    }
    assert!(number < 32, "there are 32 vector registers");
    VectorRegister(number)
}

impl<const BYTES: usize> Argument for VectorRegister<BYTES> {
    type Value = [u8; BYTES];

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        instrument::Argument::WideVector {
            register: self.0,
            bytes: BYTES as u8,
        }
    }

    fn value(_: u64, number: usize) -> [u8; BYTES] {
        instrument::wide_argument(number)
    }
}

/// A mask register. See [`mask_register`].
#[derive(Debug, Clone, Copy)]
pub struct MaskRegister(u8);

/// A mask register of AVX-512, k0 to k7: 64 bits, or 16 where the processor has no more, the rest zeros.
/// 0 if it has none.
///
/// # Panics
/// If there is no such register.
#[must_use]
#[track_caller]
pub fn mask_register(number: u8) -> MaskRegister {
    assert!(number < 8, "there are eight mask registers");
    MaskRegister(number)
}

word_argument!(MaskRegister => u64, |this, _| instrument::Argument::Mask(this.0));

/// Where a function returns to, as a word: at its first instruction and before its return, what is on
/// top of the stack. 0 if the stack is not there.
///
/// ```
/// use unspool_tool::{Address, Branch, Buffer, Caller, InstructionPointer, Superblock, ThreadNumber};
/// use unspool_tool::{TimeStamp, Tool};
///
/// /// Which thread returned when from where to where.
/// struct Returns {
///     log: Buffer<Returns, (u32, u64, Address, Address)>,
/// }
///
/// impl Tool for Returns {
///     type Thread = ();
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         let instructions = superblock.instructions();
///         for returns in instructions.filter(|it| it.branch() == Some(Branch::Return)) {
///             let entry = (ThreadNumber, TimeStamp, InstructionPointer, Caller);
///             returns.before().append(self.log, entry);
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Caller;

word_argument!(Caller => Address, |_, _| instrument::Argument::StackTop);
