//! What a tool can have inserted, and where.

use super::Counter;
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
}
