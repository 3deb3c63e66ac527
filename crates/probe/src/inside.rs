//! Whether a thread is in a function of the probe: what that one calls is its own.
//!
//! The mark lies in the thread's static block of thread-local storage and is reached by its
//! distance from the thread pointer. The usual way to thread-local storage may allocate, which
//! a wrapper of `malloc` must not.

use std::arch::asm;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static DISTANCE: AtomicI64 = AtomicI64::new(0);

/// The address that the thread pointer holds: another one in each thread.
#[inline]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word of a thread's control block is its own address (System V ABI,
    // thread-local storage for x86-64).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// Finds the mark. To be called before anything else here, in the process's first thread.
pub(crate) fn find() {
    let mark = INSIDE.with(|mark| std::ptr::from_ref(mark).addr() as u64);
    DISTANCE.store(
        mark.wrapping_sub(thread_pointer()) as i64,
        Ordering::Relaxed,
    );
}

#[inline]
fn get() -> bool {
    let mark: u8;
    let distance = DISTANCE.load(Ordering::Relaxed);
    // SAFETY: the library was loaded with the program, so that the mark is at this distance in
    // every thread.
    unsafe {
        asm!("mov {}, byte ptr fs:[{}]", out(reg_byte) mark, in(reg) distance, options(nostack, readonly, preserves_flags));
    }
    mark != 0
}

#[inline]
fn set(inside: bool) {
    let distance = DISTANCE.load(Ordering::Relaxed);
    // SAFETY: as in `get`.
    unsafe {
        asm!("mov byte ptr fs:[{}], {}", in(reg) distance, in(reg_byte) u8::from(inside), options(nostack, preserves_flags));
    }
}

/// The thread is in a function of the probe until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside(());

impl Inside {
    /// None if it is already.
    #[inline]
    pub(crate) fn enter() -> Option<Inside> {
        if get() {
            return None;
        }
        set(true);
        Some(Inside(()))
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        set(false);
    }
}

/// The thread is in the program again until this is dropped. If it never is, because the program
/// leaves by `longjmp`, the thread stays in the program, as it should.
#[derive(Debug)]
pub(crate) struct Outside(());

impl Outside {
    #[inline]
    pub(crate) fn leave() -> Outside {
        set(false);
        Outside(())
    }
}

impl Drop for Outside {
    #[inline]
    fn drop(&mut self) {
        set(true);
    }
}
