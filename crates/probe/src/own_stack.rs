//! A stack of the probe's own. Who loads a library may have a stack with room for little more
//! than that.

use std::arch::naked_asm;
use std::sync::atomic::{AtomicU64, Ordering};

const SIZE: usize = 1 << 20;
const GUARD: usize = 4096;

static TOP: AtomicU64 = AtomicU64::new(0);

/// Calls a function on it, or on the caller's if there is no memory.
///
/// # Safety
/// To be called by one thread at a time, and the function must return.
pub(crate) unsafe fn call(function: extern "C" fn()) {
    match top() {
        0 => function(),
        // SAFETY: the stack is ours and nobody uses it, the caller says.
        top => unsafe { call_at(function, top) },
    }
}

/// The end of the stack; 0 if there is none.
fn top() -> u64 {
    if TOP.load(Ordering::Relaxed) == 0 {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, whose lowest page is to be touched by nobody.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), SIZE, access, kind, -1, 0);
            if start != libc::MAP_FAILED {
                libc::mprotect(start, GUARD, libc::PROT_NONE);
                TOP.store(start as u64 + SIZE as u64, Ordering::Relaxed);
            }
        }
    }
    TOP.load(Ordering::Relaxed)
}

/// # Safety
/// The stack must be nobody's.
#[unsafe(naked)]
unsafe extern "C" fn call_at(function: extern "C" fn(), top: u64) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rsi",
        "call rdi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_runs_elsewhere_and_comes_back() {
        static HERE: AtomicU64 = AtomicU64::new(0);
        extern "C" fn note() {
            let local = 0u8;
            HERE.store(std::ptr::from_ref(&local).addr() as u64, Ordering::Relaxed);
        }
        // SAFETY: this is the only test that uses it.
        unsafe { call(note) };
        let here = HERE.load(Ordering::Relaxed);
        assert!((top() - SIZE as u64..top()).contains(&here));
    }
}
