//! The calling thread's pointer, kept where one instruction reads it.
//!
//! A shared library's thread-local variables are usually reached by a call of the dynamic
//! linker's, at every use. This library is loaded when the program starts, so that its
//! variables are at a fixed distance from the thread pointer ("initial exec"). Rust has no
//! stable way to say so; the assembler has.

use core::arch::{asm, global_asm};

use super::Thread;

global_asm!(
    ".section .tbss.unspool_current_thread, \"awT\", @nobits",
    ".balign 8",
    ".globl unspool_current_thread",
    ".hidden unspool_current_thread",
    ".type unspool_current_thread, @object",
    ".size unspool_current_thread, 8",
    "unspool_current_thread:",
    ".zero 8",
    ".text",
);

/// What was set in this thread; null at first.
#[inline]
pub(super) fn get() -> *mut Thread {
    let thread: *mut Thread;
    // SAFETY: it reads eight bytes of this thread's, which stay as long as the thread.
    unsafe {
        asm!(
            "mov {thread}, qword ptr [rip + unspool_current_thread@GOTTPOFF]",
            "mov {thread}, qword ptr fs:[{thread}]",
            thread = out(reg) thread,
            options(nostack, readonly, preserves_flags)
        );
    }
    thread
}

/// Sets it in this thread.
pub(super) fn set(thread: *mut Thread) {
    // SAFETY: it writes eight bytes of this thread's, which nothing else uses.
    unsafe {
        asm!(
            "mov {place}, qword ptr [rip + unspool_current_thread@GOTTPOFF]",
            "mov qword ptr fs:[{place}], {thread}",
            place = out(reg) _,
            thread = in(reg) thread,
            options(nostack, preserves_flags)
        );
    }
}
