//! System calls of certain instructions: what they are asked for, and what they return.

use std::marker::PhantomData;

use unspool_instrument::{self as instrument, CallWhenOver, MOST_ARGUMENTS, SystemCallValue};

use crate::argument::{Address, Analysis, Argument, Arguments, Word, word_argument};
use crate::moment::AfterSystemCall;
use crate::source::{FallThrough, InstructionPointer, Register};
use crate::tool::Tool;

/// The place behind a system call. See [`Instruction::after_system_call`].
///
/// [`Instruction::after_system_call`]: crate::Instruction::after_system_call
#[derive(Clone, Copy)]
pub struct SystemCallPoint<'a, T> {
    instruction: instrument::Instruction<'a>,
    tool: PhantomData<fn(&T)>,
}

impl<'a, T> SystemCallPoint<'a, T> {
    pub(crate) fn new(instruction: instrument::Instruction<'a>) -> SystemCallPoint<'a, T> {
        SystemCallPoint {
            instruction,
            tool: PhantomData,
        }
    }
}

impl<T: Tool> SystemCallPoint<'_, T> {
    /// Calls a function each time, with the tool, what the tool keeps for the thread, and the
    /// values of the arguments. Registers are as the program is going to see them.
    ///
    /// ```
    /// use unspool_tool::{InstructionPointer, SystemCallNumber, SystemCallResult, Superblock, Tool};
    /// use unspool_tool::{Address, say};
    ///
    /// struct Failures;
    ///
    /// impl Failures {
    ///     fn over(&self, _: &mut (), at: Address, number: u64, result: i64) {
    ///         if result < 0 {
    ///             say(&format!("{at}: system call {number} fails with error {}", -result));
    ///         }
    ///     }
    /// }
    ///
    /// impl Tool for Failures {
    ///     type Thread = ();
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             if let Some(after) = instruction.after_system_call() {
    ///                 let arguments = (InstructionPointer, SystemCallNumber, SystemCallResult);
    ///                 after.call(Failures::over, arguments);
    ///             }
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// At other places there is no result, and to ask for one does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use unspool_tool::{SystemCallResult, Superblock, Tool};
    /// # struct Failures;
    /// # impl Failures {
    /// #     fn over(&self, _: &mut (), result: i64) {}
    /// # }
    /// # impl Tool for Failures {
    /// #     type Thread = ();
    /// #     fn instrument(&self, superblock: &Superblock<Self>) {
    /// #         for instruction in superblock.instructions() {
    ///             instruction.before().call(Failures::over, (SystemCallResult,));
    /// #         }
    /// #     }
    /// # }
    /// ```
    pub fn call<F, A>(&self, function: F, arguments: A)
    where
        A: Arguments<AfterSystemCall>,
        F: Analysis<T, T::Thread, A::Values>,
    {
        const {
            assert!(
                A::COUNT <= MOST_ARGUMENTS,
                "a call has ten arguments at most"
            )
        }
        let sources = arguments.sources(self.instruction);
        self.instruction.call_when_over(CallWhenOver {
            function: crate::call::words_entry::<T, F, A, AfterSystemCall>(function),
            arguments: std::array::from_fn(|number| sources.get(number).copied()),
        });
    }
}

/// The number of the system call: before the instruction that makes it, and behind it. There it
/// is that of the call that was made, if [`Tool::system_call_entry`] has changed it.
#[derive(Debug, Clone, Copy)]
pub struct SystemCallNumber;

word_argument!(SystemCallNumber => u64, |_, _| Register::Rax.word());
word_argument!(SystemCallNumber => u64, AfterSystemCall, |_, _| SystemCallValue::Number);

/// An argument of the system call, 0 to 5: before the instruction that makes it, and behind it, as
/// [`SystemCallNumber`].
#[derive(Debug, Clone, Copy)]
pub struct SystemCallArgument<const N: usize>;

impl<const N: usize> Argument for SystemCallArgument<N> {
    type Value = u64;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        const { assert!(N < 6, "a system call has six arguments") };
        let registers = [
            Register::Rdi,
            Register::Rsi,
            Register::Rdx,
            Register::R10,
            Register::R8,
            Register::R9,
        ];
        registers[N].word()
    }

    fn value(word: u64, _: usize) -> u64 {
        word
    }
}

impl<const N: usize> Argument<AfterSystemCall> for SystemCallArgument<N> {
    type Value = u64;

    fn source(&self, _: instrument::Instruction<'_>) -> SystemCallValue {
        const { assert!(N < 6, "a system call has six arguments") };
        SystemCallValue::Argument(N as u8)
    }

    fn value(word: u64, _: usize) -> u64 {
        word
    }
}

/// What the system call has returned, behind it: a negative error number if it has failed. It is
/// what the program gets, if [`Tool::system_call_exit`] has changed it.
#[derive(Debug, Clone, Copy)]
pub struct SystemCallResult;

word_argument!(SystemCallResult => i64, AfterSystemCall, |_, _| SystemCallValue::Result);

word_argument!(InstructionPointer => Address, AfterSystemCall, |_, instruction| {
    SystemCallValue::Constant(instruction.address())
});
word_argument!(FallThrough => Address, AfterSystemCall, |_, instruction| {
    SystemCallValue::Constant(instruction.next_address())
});
word_argument!(Register => u64, AfterSystemCall, |this, _| {
    SystemCallValue::Register(*this as u8)
});
