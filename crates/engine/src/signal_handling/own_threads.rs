//! Threads of the engine and of tools, to which no signal of the program's may come.
//!
//! The kernel gives a signal for the process to any thread that does not block it. So every thread
//! that is started here starts with all signals blocked but those of faults: a thread of the
//! program's opens its mask when it is ready for them.
//!
//! Those of faults are as in the thread that starts it: a process that has just begun may have some
//! pending from the program before it, which it does not open before it has its handlers.

use std::ffi::c_void;

use crate::signals::{SYNCHRONOUS, change_exact_mask};

unsafe extern "C" {
    /// The C library's own name for what is also `pthread_create`.
    fn __pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> i32;
}

/// Starts a thread, in the place of the C library's function, with signals blocked.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> i32 {
    let before = change_exact_mask(libc::SIG_BLOCK, !SYNCHRONOUS);
    // SAFETY: the caller's.
    let result = unsafe { __pthread_create(thread, attributes, start, argument) };
    // What was open is opened again only if nothing has come before it was closed.
    change_exact_mask(libc::SIG_SETMASK, before);
    result
}
