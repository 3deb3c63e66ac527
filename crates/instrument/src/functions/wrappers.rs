//! Functions of a tool in the place of the program's.
//!
//! A wrapper runs as a coroutine, on a stack of its own. When it calls the original, the
//! coroutine is suspended, and the program goes on in the original function with the arguments
//! that the wrapper gave: on its own stack, which looks as if nobody were between it and its
//! caller. When that returns, the coroutine goes on. So a wrapper that is left by an exception
//! or by `longjmp` is dropped where it is, and programs may switch between stacks of their own
//! in the middle of wrapped functions.

use std::cell::RefCell;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

/// Bytes of a wrapper's stack; touched pages only cost memory.
const STACK_SIZE: usize = 256 << 10;
/// How many unused stacks a thread keeps.
const KEPT_STACKS: usize = 16;

/// The registers of a call, as the C calling convention uses them.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallRegisters {
    /// The integer arguments: rdi, rsi, rdx, rcx, r8, r9.
    pub integers: [u64; 6],
    /// The floating-point arguments: the low halves of xmm0 to xmm7.
    pub floats: [u64; 8],
    /// What is returned in rax.
    pub result: u64,
    /// What is returned in xmm0.
    pub float_result: u64,
    /// Where the return address is.
    pub stack_pointer: u64,
    /// What the function returns to.
    pub return_address: u64,
}

/// What takes the place of a function. It gets a function that calls the original, with the
/// arguments that its argument has, and leaves the result there; and the registers of the call,
/// where it leaves its own result.
pub type WrapperFunction = fn(&mut dyn FnMut(&mut CallRegisters), &mut CallRegisters);

/// What a wrapper does next.
pub(super) enum WrapperStep {
    /// It calls the original.
    Original(CallRegisters),
    /// It returns.
    Return(CallRegisters),
}

/// A wrapper that has not returned.
pub(super) struct Wrapper {
    coroutine: Coroutine<CallRegisters, CallRegisters, CallRegisters>,
}

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

impl Wrapper {
    pub(super) fn new(function: WrapperFunction) -> Wrapper {
        let kept = STACKS.with_borrow_mut(Vec::pop);
        let stack = kept.unwrap_or_else(|| {
            DefaultStack::new(STACK_SIZE).unwrap_or_else(|error| {
                unspool_kernel::diagnostics::fatal(&format!(
                    "no memory for a wrapper's stack: {error}"
                ))
            })
        });
        let coroutine = Coroutine::with_stack(stack, move |yielder, mut registers| {
            let mut original = |call: &mut CallRegisters| *call = yielder.suspend(*call);
            function(&mut original, &mut registers);
            registers
        });
        Wrapper { coroutine }
    }

    /// Begins with the call's registers, or goes on with those behind the original.
    pub(super) fn resume(&mut self, registers: CallRegisters) -> WrapperStep {
        match self.coroutine.resume(registers) {
            CoroutineResult::Yield(registers) => WrapperStep::Original(registers),
            CoroutineResult::Return(registers) => WrapperStep::Return(registers),
        }
    }

    /// Gives back what it used. If it has not returned, its values are dropped.
    pub(super) fn finish(mut self) {
        if !self.coroutine.done() {
            self.coroutine.force_unwind();
        }
        let stack = self.coroutine.into_stack();
        STACKS.with_borrow_mut(|stacks| {
            if stacks.len() < KEPT_STACKS {
                stacks.push(stack);
            }
        });
    }
}
