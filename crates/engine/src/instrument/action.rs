//! What a tool can have inserted, and where.

use super::{BufferId, Counter};
use crate::operands::MemoryOperand;

/// When an action happens with respect to its instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Before it is executed.
    Before,
    /// After it, where control goes on at the next instruction.
    After,
    /// After it, where control goes to its target.
    Taken,
}

/// The most arguments that a call can have.
pub const MOST_ARGUMENTS: usize = 6;

/// A function of a tool, called with the address of its arguments' words. It runs on the
/// engine's stack of the thread, must return, and must not use x87 or MMX registers.
pub type Function = extern "C" fn(*const u64);

/// An argument of a call, evaluated at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// A constant.
    Constant(u64),
    /// A general register, by its number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, …, r15 15).
    Register(u8),
    /// The address that an operand in memory names, without what its shape may add to it.
    Address(MemoryOperand),
    /// 1 if the conditional jump before which the place is will be taken, else 0.
    Taken,
}

impl Argument {
    /// Whether it is 0 or 1.
    #[must_use]
    pub fn is_truth(&self) -> bool {
        matches!(self, Argument::Constant(0 | 1) | Argument::Taken)
    }
}

/// What is to be done at a place.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Adds to a counter of the thread. At [`Place::Before`] it counts only if the
    /// instruction completes: one that faults is not counted, and a repeated string
    /// instruction counts once.
    Count {
        /// The counter.
        counter: Counter,
        /// What to add.
        amount: u32,
    },
    /// Calls a function.
    Call {
        /// The function.
        function: Function,
        /// Its arguments: those up to the first that is missing.
        arguments: [Option<Argument>; MOST_ARGUMENTS],
    },
    /// Appends an entry to a buffer of the thread. At [`Place::Before`] it is appended only if
    /// the instruction completes, as for [`Action::Count`].
    Append {
        /// The buffer.
        buffer: BufferId,
        /// Bytes of the entry, as the buffer's.
        size: u16,
        /// What is stored where: those up to the first that is missing. The values are
        /// those at the place.
        fields: [Option<Field>; MOST_ARGUMENTS],
    },
}

/// A part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its value: the lowest bytes of it are stored.
    pub value: Argument,
    /// Where it lies in the entry.
    pub offset: u16,
    /// Its bytes: 1, 2, 4 or 8.
    pub size: u8,
}
