//! The program's `errno`, which wrappers leave as the functions that they are around do.
//!
//! It lies in the C library's part of the static block of thread-local storage: where, is asked
//! once, and not at each call.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::inside::thread_pointer;

static DISTANCE: AtomicI64 = AtomicI64::new(0);

/// Asks where it is. To be called before anything else here, in the process's first thread.
pub(crate) fn find() {
    // SAFETY: only returns an address, of the thread's own.
    let address = unsafe { libc::__errno_location() }.addr() as u64;
    let distance = address.wrapping_sub(thread_pointer()) as i64;
    DISTANCE.store(distance, Ordering::Relaxed);
}

#[inline]
fn place() -> *mut i32 {
    let distance = DISTANCE.load(Ordering::Relaxed);
    std::ptr::with_exposed_provenance_mut(thread_pointer().wrapping_add_signed(distance) as usize)
}

#[inline]
pub(crate) fn errno() -> i32 {
    // SAFETY: the C library was loaded with the program, so that it is at this distance in every
    // thread.
    unsafe { *place() }
}

#[inline]
pub(crate) fn set_errno(errno: i32) {
    // SAFETY: as above.
    unsafe { *place() = errno };
}
