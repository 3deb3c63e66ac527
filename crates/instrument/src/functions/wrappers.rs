//! Functions of a tool in the place of the program's.
//!
//! A wrapper runs as a coroutine, on a stack of its own. When it calls the original, the
//! coroutine is suspended, and the program goes on in the original function with the arguments
//! that the wrapper gave: on its own stack, which looks as if nobody were between it and its
//! caller. When that returns, the coroutine goes on. So a wrapper that is left by an exception
//! or by `longjmp` is dropped where it is, and programs may switch between stacks of their own
//! in the middle of wrapped functions.
//!
//! A coroutine that has run one wrapper runs others: switching is a few instructions, which
//! change no vector register, so that inserted code can do it without the gate that keeps all.

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use corosensei::stack::{DefaultStack, Stack};
use unspool_code_cache::slots::slots;

use crate::compiled::CoroutineCode;
use crate::slots as tool_slots;

/// Bytes of a wrapper's stack; touched pages only cost memory.
const STACK_SIZE: usize = 256 << 10;

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

/// What takes the place of a function. It gets the registers of the call, where it leaves its
/// result; with [`call_original`] it has the original called with the arguments that are there.
pub type WrapperFunction = fn(&mut CallRegisters);

/// What a wrapper does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrapperStep {
    /// It calls the original.
    Original,
    /// It returns.
    Return,
}

/// A stack, and what runs there.
struct Coroutine {
    /// The stack pointer of the side that does not run.
    other_side: Cell<u64>,
    function: Cell<WrapperFunction>,
    registers: UnsafeCell<CallRegisters>,
    has_returned: Cell<bool>,
    /// Whether the wrapper is to be left where it is.
    is_dropped: Cell<bool>,
    /// The next one that a thread keeps.
    next: Cell<Option<NonNull<Coroutine>>>,
    _stack: DefaultStack,
}

/// A wrapper that has not returned. It has to be [finished](Wrapper::finish).
#[repr(transparent)]
pub(super) struct Wrapper(NonNull<Coroutine>);

std::arch::global_asm!(
    // Goes on at the stack pointer that rdi points to, and leaves its own there. What a function
    // must give back lies on either stack. Nothing returns by `ret`: the processor would predict
    // the other side's return.
    ".globl unspool_switch_wrapper",
    ".hidden unspool_switch_wrapper",
    ".type unspool_switch_wrapper, @function",
    "unspool_switch_wrapper:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov rax, qword ptr [rdi]",
    "mov qword ptr [rdi], rsp",
    "mov rsp, rax",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "pop rcx",
    "jmp rcx",
    // Where a new coroutine starts; rbx is its address.
    ".globl unspool_start_wrapper",
    ".hidden unspool_start_wrapper",
    ".type unspool_start_wrapper, @function",
    "unspool_start_wrapper:",
    "mov rdi, rbx",
    "call {run}",
    "ud2",
    run = sym run,
);

unsafe extern "C" {
    fn unspool_switch_wrapper();
    fn unspool_start_wrapper();
}

/// The code by which wrappers run, for whoever finds out what one changes. `entries`: what has it
/// begin and go on.
pub(super) fn code(entries: [u64; 2]) -> CoroutineCode {
    CoroutineCode {
        entries,
        runs: run as *const () as u64,
        switch: unspool_switch_wrapper as *const () as u64,
        leaves: leave_wrapper as *const () as u64,
    }
}

/// # Safety
/// The place must hold a stack pointer that the other side has left there.
#[inline(always)]
unsafe fn switch(place: &Cell<u64>) {
    // SAFETY: what a function may change is said to be, and what it must keep lies on the stack.
    unsafe {
        std::arch::asm!(
            "call {switch}",
            switch = sym unspool_switch_wrapper,
            inout("rdi") place.as_ptr() => _,
            clobber_abi("C"),
        );
    }
}

/// Runs one wrapper after the other.
extern "C" fn run(coroutine: &Coroutine) -> ! {
    loop {
        let function = coroutine.function.get();
        // SAFETY: the other side touches the registers only while this one waits.
        let registers = unsafe { &mut *coroutine.registers.get() };
        // A wrapper that is dropped ends here. (A panic ends the process before.)
        let _ = catch_unwind(AssertUnwindSafe(|| function(registers)));
        coroutine.has_returned.set(true);
        // SAFETY: the other side has come here by a switch.
        unsafe { switch(&coroutine.other_side) };
    }
}

/// What unwinds a wrapper that is dropped.
struct Dropped;

/// Where no wrapper goes on.
#[cold]
#[inline(never)]
fn leave_wrapper() -> ! {
    resume_unwind(Box::new(Dropped))
}

/// Has the original function called, from within its wrapper, with the arguments that are in these
/// registers; the result is there then.
///
/// # Panics
/// If no wrapper runs.
#[inline(never)]
pub fn call_original(registers: &mut CallRegisters) {
    let running = tool_slots::of(slots()).running_wrapper.get();
    // SAFETY: what runs is a coroutine until it says that it has returned.
    let coroutine = unsafe { (running as *const Coroutine).as_ref() };
    let coroutine = coroutine.expect("a function is called from within its wrapper");
    assert!(
        std::ptr::eq(registers, coroutine.registers.get()),
        "a function is called with the registers that its wrapper was given"
    );
    // SAFETY: the other side has come here by a switch.
    unsafe { switch(&coroutine.other_side) };
    if coroutine.is_dropped.get() {
        leave_wrapper();
    }
}

/// What a new coroutine would run.
fn nothing(_: &mut CallRegisters) {}

impl Coroutine {
    fn new() -> NonNull<Coroutine> {
        let stack = DefaultStack::new(STACK_SIZE).unwrap_or_else(|error| {
            unspool_kernel::diagnostics::fatal(&format!("no memory for a wrapper's stack: {error}"))
        });
        let top = stack.base().get() as u64;
        let made = Box::new(Coroutine {
            other_side: Cell::new(0),
            function: Cell::new(nothing),
            registers: UnsafeCell::default(),
            has_returned: Cell::new(true),
            is_dropped: Cell::new(false),
            next: Cell::new(None),
            _stack: stack,
        });
        // What the switch takes from there: rbx is the fifth, and behind all is where to go.
        const REGISTERS: u64 = 6;
        const RBX: u64 = 4;
        let start = top - 16 - 8 * (REGISTERS + 1);
        made.other_side.set(start);
        let made = NonNull::from(Box::leak(made));
        let word = |number: u64| (start + 8 * number) as *mut u64;
        // SAFETY: these words lie at the end of a stack that nobody uses yet.
        unsafe {
            (0..REGISTERS).for_each(|number| word(number).write(0));
            word(RBX).write(made.as_ptr() as u64);
            word(REGISTERS).write(unspool_start_wrapper as *const () as u64);
        }
        made
    }
}

impl Wrapper {
    /// One that is to begin: on a stack that the thread has kept, if there is one.
    pub(super) fn new() -> Wrapper {
        Wrapper::kept().unwrap_or_else(|| Wrapper(Coroutine::new()))
    }

    /// One on a stack that the thread has kept.
    #[inline]
    pub(super) fn kept() -> Option<Wrapper> {
        let kept = &tool_slots::of(slots()).kept_wrappers;
        let first = NonNull::new(kept.get() as *mut Coroutine)?;
        // SAFETY: what is kept is nobody else's.
        let next = unsafe { first.as_ref() }.next.take();
        kept.set(next.map_or(0, |next| next.as_ptr() as u64));
        Some(Wrapper(first))
    }

    /// The call's registers: those with which it begins, and what it calls the original with, or
    /// returns.
    #[inline]
    pub(super) fn registers(&mut self) -> &mut CallRegisters {
        // SAFETY: the coroutine is this wrapper's, and waits.
        unsafe { &mut *self.0.as_ref().registers.get() }
    }

    /// Runs from its beginning.
    #[inline]
    pub(super) fn begin(&mut self, function: WrapperFunction) -> WrapperStep {
        // SAFETY: the coroutine is this wrapper's.
        let coroutine = unsafe { self.0.as_ref() };
        coroutine.function.set(function);
        coroutine.has_returned.set(false);
        self.resume()
    }

    /// Goes on behind the original.
    #[inline]
    pub(super) fn resume(&mut self) -> WrapperStep {
        let running = &tool_slots::of(slots()).running_wrapper;
        running.set(self.0.as_ptr() as u64);
        // SAFETY: the coroutine is this wrapper's, and waits.
        let coroutine = unsafe { self.0.as_ref() };
        // SAFETY: it has left its stack pointer there, or the one with which it starts.
        unsafe { switch(&coroutine.other_side) };
        running.set(0);
        match coroutine.has_returned.get() {
            true => WrapperStep::Return,
            false => WrapperStep::Original,
        }
    }

    /// Gives back what it used. If it has not returned, its values are dropped.
    pub(super) fn finish(mut self) {
        // SAFETY: the coroutine is this wrapper's.
        let coroutine = unsafe { self.0.as_ref() };
        if !coroutine.has_returned.get() {
            coroutine.is_dropped.set(true);
            let step = self.resume();
            assert!(
                step == WrapperStep::Return,
                "a wrapper that is left by an exception calls the original"
            );
            coroutine.is_dropped.set(false);
        }
        self.keep();
    }

    /// Leaves its stack to others of the thread. It must have returned.
    #[inline]
    pub(super) fn keep(self) {
        let kept = &tool_slots::of(slots()).kept_wrappers;
        // SAFETY: the coroutine is this wrapper's.
        let coroutine = unsafe { self.0.as_ref() };
        coroutine
            .next
            .set(NonNull::new(kept.get() as *mut Coroutine));
        kept.set(self.0.as_ptr() as u64);
    }
}

/// Sees to it that inserted code finds a stack.
pub(super) fn have_one_kept() {
    if tool_slots::of(slots()).kept_wrappers.get() == 0 {
        Wrapper(Coroutine::new()).keep();
    }
}

/// The thread ends: gives back all that it has kept.
pub(super) fn forget_kept() {
    while let Some(Wrapper(coroutine)) = Wrapper::kept() {
        // SAFETY: it was made as a box, nobody refers to it any more, and it holds nothing of a
        // wrapper's.
        drop(unsafe { Box::from_raw(coroutine.as_ptr()) });
    }
}
