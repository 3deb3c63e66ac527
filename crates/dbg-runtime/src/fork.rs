//! What becomes of this library when the process forks: what was recorded before is the
//! parent's to write, and the child's threads have traces of their own.
//!
//! A child has only the thread that forked. A lock that another one held at that moment would
//! never be let go in it, so that the forking thread takes all locks before.

use std::cell::UnsafeCell;
use std::sync::MutexGuard;

use crate::{recorder, strings};

type Locks = (
    MutexGuard<'static, recorder::All>,
    MutexGuard<'static, strings::Registered>,
);

/// The locks that the forking thread holds from before the fork until after.
struct Held(UnsafeCell<Option<Locks>>);

// SAFETY: only the thread that holds the locks uses it.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Makes the C library tell when the process forks.
pub(crate) fn watch() {
    // SAFETY: the handlers only touch what belongs to this library.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    let locks = (recorder::all(), strings::registered());
    // SAFETY: this thread holds the locks.
    unsafe { *HELD.0.get() = Some(locks) };
}

/// What was taken before the fork.
fn held() -> Option<Locks> {
    // SAFETY: this thread holds the locks, or is the child's copy of the one that does.
    unsafe { (*HELD.0.get()).take() }
}

extern "C" fn in_parent() {
    drop(held());
}

extern "C" fn in_child() {
    if let Some((mut all, _)) = held() {
        recorder::forget(&mut all);
    }
}
