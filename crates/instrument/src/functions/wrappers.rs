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
//!
//! The processor predicts where a `ret` goes by the calls before it, whichever stack they were made
//! on. So each side finds as many calls behind a switch as there were before it: what switches is
//! jumped to, and so is a wrapper at its beginning; where it goes on, a call is made up for the one
//! that it returns from.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use corosensei::stack::{DefaultStack, Stack};
use unspool_code_cache::slots::slots;

use crate::compiled::CoroutineCode;
use crate::rarely::assert_outside;
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
pub type WrapperFunction = extern "C-unwind" fn(&mut CallRegisters);

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
    registers: UnsafeCell<CallRegisters>,
    has_returned: Cell<bool>,
    /// Whether the wrapper is to be left where it is.
    is_dropped: Cell<bool>,
    /// The next one that a thread keeps.
    next: Cell<Option<NonNull<Coroutine>>>,
    stack: DefaultStack,
}

/// A wrapper that has not returned. It has to be [finished](Wrapper::finish).
#[repr(transparent)]
pub(super) struct Wrapper(NonNull<Coroutine>);

std::arch::global_asm!(
    // Goes on in a coroutine behind the original, otherwise as below. The call, whose return address
    // is thrown away, has the processor expect what comes: a `ret` that leads behind it, the wrapper's.
    ".globl unspool_enter_wrapper",
    ".hidden unspool_enter_wrapper",
    ".type unspool_enter_wrapper, @function",
    ".cfi_startproc",
    ".cfi_personality 0x1b, {personality}",
    // Nobody has called this.
    ".cfi_undefined 16",
    "unspool_enter_wrapper:",
    "call 3f",
    // A wrapper returns here; rbx is its coroutine's address.
    ".globl unspool_wrapper_returned",
    ".hidden unspool_wrapper_returned",
    "unspool_wrapper_returned:",
    "mov byte ptr [rbx + {has_returned}], 1",
    "mov rsp, qword ptr [rbx + {other_side}]",
    "jmp 4f",
    // A wrapper that is dropped ends here; rax is what it was unwound by.
    ".globl unspool_wrapper_left",
    ".hidden unspool_wrapper_left",
    "unspool_wrapper_left:",
    "mov rdi, rax",
    "call {forget_exception}",
    "jmp unspool_wrapper_returned",
    ".cfi_endproc",
    "3:",
    "add rsp, 8",
    // Goes on at the stack pointer that rdi points to, and leaves its own there. On top are rbx and
    // rbp, and above them where to go on.
    ".globl unspool_switch_wrapper",
    ".hidden unspool_switch_wrapper",
    ".type unspool_switch_wrapper, @function",
    "unspool_switch_wrapper:",
    "push rbp",
    "push rbx",
    "mov rax, qword ptr [rdi]",
    "mov qword ptr [rdi], rsp",
    "mov rsp, rax",
    "4:",
    "pop rbx",
    "pop rbp",
    "pop rcx",
    "jmp rcx",
    // Where a coroutine begins the wrapper that is in rbp; rbx is the coroutine's address.
    ".globl unspool_begin_wrapper",
    ".hidden unspool_begin_wrapper",
    ".type unspool_begin_wrapper, @function",
    "unspool_begin_wrapper:",
    "lea rdi, [rbx + {registers}]",
    "jmp rbp",
    personality = sym end_unwinding,
    forget_exception = sym forget_exception,
    has_returned = const offset_of!(Coroutine, has_returned),
    other_side = const offset_of!(Coroutine, other_side),
    registers = const offset_of!(Coroutine, registers),
);

unsafe extern "C" {
    fn unspool_enter_wrapper();
    fn unspool_switch_wrapper();
    fn unspool_begin_wrapper();
    fn unspool_wrapper_returned();
    fn unspool_wrapper_left();
}

/// The code by which wrappers run, for whoever finds out what one changes. `entries`: what has it
/// begin and go on.
pub(super) fn code(entries: [u64; 2]) -> CoroutineCode {
    CoroutineCode {
        entries,
        switches: [
            unspool_enter_wrapper as *const () as u64,
            unspool_switch_wrapper as *const () as u64,
        ],
        leaves: leave_wrapper as *const () as u64,
    }
}

/// Goes to the other side by one of the functions above, until that comes back.
macro_rules! switch {
    ($switch:ident, $coroutine:expr) => {{
        let coroutine: &Coroutine = $coroutine;
        std::arch::asm!(
            "lea rcx, [rip + 2f]",
            "push rcx",
            "jmp {switch}",
            "2:",
            switch = sym $switch,
            inout("rdi") coroutine.other_side.as_ptr() => _,
            // Both sides may use all but what compilers keep for themselves, which the switch keeps.
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("C"),
        );
    }};
}

/// What unwinds a wrapper that is dropped.
struct Dropped;

/// Where no wrapper goes on.
#[cold]
#[inline(never)]
fn leave_wrapper() -> ! {
    resume_unwind(Box::new(Dropped))
}

// Of the Itanium C++ ABI's exception handling, level I.
const SEARCH_PHASE: c_int = 1;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
/// The number of rax in debugging information.
const RAX: c_int = 0;

unsafe extern "C-unwind" {
    fn _Unwind_RaiseException(exception: *mut c_void) -> c_int;
}

unsafe extern "C" {
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: u64);
    fn _Unwind_SetIP(context: *mut c_void, place: u64);
}

/// What unwinders ask where a wrapper was begun: there it ends. (A panic ends the process before.)
extern "C" fn end_unwinding(
    _version: c_int,
    actions: c_int,
    _class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & SEARCH_PHASE != 0 {
        return HANDLER_FOUND;
    }
    // SAFETY: the unwinder has given the context to be changed so.
    unsafe {
        _Unwind_SetGR(context, RAX, exception as u64);
        _Unwind_SetIP(context, unspool_wrapper_left as *const () as u64);
    }
    INSTALL_CONTEXT
}

/// Gives back what has unwound a wrapper. Only the library that has made it knows how, where it is caught.
extern "C" fn forget_exception(exception: *mut c_void) {
    // SAFETY: it was raised before, has come to its end, and nobody else has it.
    let _ = catch_unwind(AssertUnwindSafe(|| unsafe {
        _Unwind_RaiseException(exception)
    }));
}

/// Has the original function called, from within its wrapper, with the arguments that are in these
/// registers; the result is there then.
///
/// # Panics
/// If no wrapper runs, or if it does this within [`rarely`](crate::rarely()).
#[inline(always)]
pub fn call_original(registers: &mut CallRegisters) {
    let running = tool_slots::of(slots()).running_wrapper.get();
    // SAFETY: what runs is a coroutine until it says that it has returned.
    let coroutine = unsafe { (running as *const Coroutine).as_ref() };
    let coroutine = coroutine.expect("a function is called from within its wrapper");
    assert!(
        std::ptr::eq(registers, coroutine.registers.get()),
        "a function is called with the registers that its wrapper was given"
    );
    assert_outside();
    // SAFETY: the other side has come here by a switch, and has left its stack pointer.
    unsafe { switch!(unspool_switch_wrapper, coroutine) };
    if coroutine.is_dropped.get() {
        leave_wrapper();
    }
}

impl Coroutine {
    fn new() -> NonNull<Coroutine> {
        let stack = DefaultStack::new(STACK_SIZE).unwrap_or_else(|error| {
            unspool_kernel::diagnostics::fatal(&format!("no memory for a wrapper's stack: {error}"))
        });
        let made = Box::new(Coroutine {
            other_side: Cell::new(0),
            registers: UnsafeCell::default(),
            has_returned: Cell::new(true),
            is_dropped: Cell::new(false),
            next: Cell::new(None),
            stack,
        });
        NonNull::from(Box::leak(made))
    }

    /// Has the stack be what a switch to the beginning of a wrapper finds there: see the code above.
    ///
    /// # Safety
    /// Nothing may run there that has not returned.
    #[inline]
    unsafe fn set_up(&self, function: WrapperFunction) {
        let begins = [
            std::ptr::from_ref(self) as u64, // rbx
            function as usize as u64,        // rbp
            unspool_begin_wrapper as *const () as u64,
            // The wrapper's return address, with the stack as the ABI wants it at a function's start.
            unspool_wrapper_returned as *const () as u64,
            0,
            0,
        ];
        let base = self.stack.base().get() as *mut u64;
        // SAFETY: the words lie at the end of a stack that nobody uses.
        unsafe {
            let place = base.sub(begins.len());
            // One by one, without vector registers.
            for (number, word) in begins.into_iter().enumerate() {
                place.add(number).write_volatile(word);
            }
            self.other_side.set(place as u64);
        }
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
        self.go_on(|coroutine| {
            coroutine.has_returned.set(false);
            // SAFETY: what has run there has returned, and the stack is as the switch wants it.
            unsafe {
                coroutine.set_up(function);
                switch!(unspool_switch_wrapper, coroutine);
            }
        })
    }

    /// Goes on behind the original.
    #[inline]
    pub(super) fn resume(&mut self) -> WrapperStep {
        // SAFETY: it has called the original, and left its stack pointer there.
        self.go_on(|coroutine| unsafe { switch!(unspool_enter_wrapper, coroutine) })
    }

    /// Runs until it calls the original or returns.
    #[inline(always)]
    fn go_on(&mut self, switch: impl FnOnce(&Coroutine)) -> WrapperStep {
        let running = &tool_slots::of(slots()).running_wrapper;
        running.set(self.0.as_ptr() as u64);
        // SAFETY: the coroutine is this wrapper's, and waits.
        let coroutine = unsafe { self.0.as_ref() };
        switch(coroutine);
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
