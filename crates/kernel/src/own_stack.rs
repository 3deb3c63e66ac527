//! A stack of the engine's own for the process's first thread.
//!
//! The stack that the kernel gave the process becomes the program's. No other memory is like
//! it: it grows up to the limit that is in force at that moment, `/proc/self/maps` calls it
//! `[stack]`, and the kernel keeps room free below it, as much as the limit said when the
//! process started.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout;

/// Bytes of the engine's stack; touched pages only cost memory.
const SIZE: usize = 8 << 20;
/// Bytes below it that nobody may touch.
const GUARD: usize = 64 << 10;

// unspool_call_on_stack(top, function, argument): calls `function(argument, former)` with the
// stack pointer at `top`, where `former` is what the stack pointer was. Stack traces end here:
// what was below is the program's now, and no longer what it was.
std::arch::global_asm!(
    ".globl unspool_call_on_stack",
    ".hidden unspool_call_on_stack",
    ".type unspool_call_on_stack, @function",
    "unspool_call_on_stack:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "mov rax, rsi",
    "mov rsp, rdi",
    "mov rdi, rdx",
    "mov rsi, rbp",
    "call rax",
    "mov rsp, rbp",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
);

unsafe extern "C" {
    fn unspool_call_on_stack(
        top: u64,
        function: extern "C" fn(*mut libc::c_void, u64),
        argument: *mut libc::c_void,
    );
}

struct Job<F, R> {
    function: Option<F>,
    result: Option<std::thread::Result<R>>,
}

extern "C" fn carry_out<F: FnOnce(u64) -> R, R>(job: *mut libc::c_void, former: u64) {
    // SAFETY: `call` passes its own job, which nothing else refers to meanwhile.
    let job = unsafe { &mut *job.cast::<Job<F, R>>() };
    if let Some(function) = job.function.take() {
        job.result = Some(catch_unwind(AssertUnwindSafe(|| function(former))));
    }
}

/// Where the stack of the process's first thread was left; 0 if it was not.
static LEFT_AT: AtomicU64 = AtomicU64::new(0);

/// Calls a function of the first thread on a stack of the engine's own, unless that is in use
/// already. It gets the stack pointer of the process's stack: below that, nothing of it is in
/// use until the function returns.
///
/// # Errors
/// There is no memory for a stack.
pub fn call<F: FnOnce(u64) -> R, R>(function: F) -> io::Result<R> {
    let left_at = LEFT_AT.load(Ordering::Relaxed);
    if left_at != 0 {
        return Ok(function(left_at));
    }
    call_elsewhere(|former| {
        LEFT_AT.store(former, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| function(former)));
        LEFT_AT.store(0, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Calls a function on a new stack.
fn call_elsewhere<F: FnOnce(u64) -> R, R>(function: F) -> io::Result<R> {
    let memory = Memory::map()?;
    let mut job = Job {
        function: Some(function),
        result: None,
    };
    // SAFETY: the stack is mapped, aligned, and used by this call alone.
    unsafe { unspool_call_on_stack(memory.top(), carry_out::<F, R>, (&raw mut job).cast()) };
    match job.result {
        Some(Ok(result)) => Ok(result),
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("the function was called"),
    }
}

struct Memory(*mut libc::c_void);

impl Memory {
    fn map() -> io::Result<Memory> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = Memory(start);
        // SAFETY: nothing is there yet.
        unsafe { layout::protect(start as u64, GUARD as u64, libc::PROT_NONE)? };
        Ok(memory)
    }

    fn top(&self) -> u64 {
        self.0 as u64 + SIZE as u64
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the call that used it is over.
        unsafe { libc::munmap(self.0, SIZE) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_function_runs_elsewhere_and_its_result_comes_back() {
        let here = 0_u8;
        let mut seen = Vec::new();
        let result = super::call_elsewhere(|former| {
            let there = 0_u8;
            seen.push(&raw const there as u64);
            former
        });
        let former = result.unwrap();
        let distance = |to: u64| former.abs_diff(to);
        assert!(distance(&raw const here as u64) < 1 << 20);
        assert!(distance(seen[0]) > 1 << 20);
    }

    #[test]
    fn a_panic_comes_back_too() {
        let caught =
            std::panic::catch_unwind(|| super::call_elsewhere(|_| panic!("on the other stack")));
        let message = caught.unwrap_err();
        assert_eq!(message.downcast_ref(), Some(&"on the other stack"));
    }
}
