//! When something is called. An argument says of each moment whether it can be known then.

use unspool_instructions::operands::MemoryOperand;
use unspool_instrument::functions::{HookCall, HookValue, Hooks, MOST_ARGUMENTS};
use unspool_instrument::{self as instrument, SystemCallValue};

/// When something is called.
pub trait Moment: 'static {
    /// What is known of the place when the call is inserted there.
    #[doc(hidden)]
    type Site<'a>: Copy;
    /// Where the engine takes a value from.
    #[doc(hidden)]
    type Source;
    /// The words that the engine passes.
    #[doc(hidden)]
    type Words;
    /// Where it takes a constant from.
    #[doc(hidden)]
    fn constant(word: u64) -> Self::Source;
    /// Where entries take the thread's number from.
    #[doc(hidden)]
    #[must_use]
    fn thread_number() -> Self::Source {
        Self::constant(0)
    }
    /// Where they take the time from.
    #[doc(hidden)]
    #[must_use]
    fn time_stamp() -> Self::Source {
        Self::constant(0)
    }
    /// The word of an argument.
    #[doc(hidden)]
    fn word(words: &Self::Words, number: usize) -> u64;
}

/// An instruction is about to be executed, or has been.
#[derive(Debug)]
pub enum AtInstruction {}
/// An instruction accesses memory: each time that it does.
#[derive(Debug)]
pub enum AtAccess {}
/// A system call is over.
#[derive(Debug)]
pub enum AfterSystemCall {}
/// A routine is entered.
#[derive(Debug)]
pub enum AtEntry {}
/// A routine returns.
#[derive(Debug)]
pub enum AtExit {}
/// A routine is left otherwise.
#[derive(Debug)]
pub enum AtUnwind {}

impl Moment for AtInstruction {
    type Site<'a> = instrument::Instruction<'a>;
    type Source = instrument::Argument;
    type Words = [u64; instrument::REGISTER_ARGUMENTS];

    fn constant(word: u64) -> instrument::Argument {
        instrument::Argument::Constant(word)
    }

    fn thread_number() -> instrument::Argument {
        instrument::Argument::ThreadNumber
    }

    fn time_stamp() -> instrument::Argument {
        instrument::Argument::TimeStamp
    }

    #[expect(
        clippy::inline_always,
        reason = "the number is a constant, and functions that are called often must be short"
    )]
    #[inline(always)]
    fn word(words: &Self::Words, number: usize) -> u64 {
        words
            .get(number)
            .copied()
            .unwrap_or_else(|| word_in_memory(number))
    }
}

/// Only entries are made at this moment, of which nobody gets words one by one.
impl Moment for AtAccess {
    type Site<'a> = (instrument::Instruction<'a>, &'a MemoryOperand);
    type Source = instrument::Argument;
    type Words = [u64; instrument::MOST_ARGUMENTS];

    fn constant(word: u64) -> instrument::Argument {
        instrument::Argument::Constant(word)
    }

    fn thread_number() -> instrument::Argument {
        instrument::Argument::ThreadNumber
    }

    fn time_stamp() -> instrument::Argument {
        instrument::Argument::TimeStamp
    }

    fn word(words: &Self::Words, number: usize) -> u64 {
        words[number]
    }
}

impl Moment for AfterSystemCall {
    type Site<'a> = instrument::Instruction<'a>;
    type Source = SystemCallValue;
    type Words = [u64; instrument::MOST_ARGUMENTS];

    fn constant(word: u64) -> SystemCallValue {
        SystemCallValue::Constant(word)
    }

    fn word(words: &Self::Words, number: usize) -> u64 {
        words[number]
    }
}

/// The word of an argument that is not passed in a register: one behind the fourth, or one for which only
/// memory does. Inserted code of the same thread has stored it in the thread's slots, for this call.
#[inline]
pub(crate) fn word_in_memory(number: usize) -> u64 {
    // SAFETY: the words are this thread's, and only inserted code writes them.
    unsafe { instrument::argument_word(number).read() }
}

/// A moment of a routine.
pub trait RoutineMoment: 'static {
    /// The calls of that moment.
    #[doc(hidden)]
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall>;
}

impl RoutineMoment for AtEntry {
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall> {
        &mut hooks.entry
    }
}

impl RoutineMoment for AtExit {
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall> {
        &mut hooks.exit
    }
}

impl RoutineMoment for AtUnwind {
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall> {
        &mut hooks.unwind
    }
}

impl<M: RoutineMoment> Moment for M {
    type Site<'a> = ();
    type Source = HookValue;
    type Words = [u64; MOST_ARGUMENTS];

    fn constant(word: u64) -> HookValue {
        HookValue::Constant(word)
    }

    #[expect(clippy::inline_always, reason = "as above")]
    #[inline(always)]
    fn word(words: &Self::Words, number: usize) -> u64 {
        words[number]
    }
}
