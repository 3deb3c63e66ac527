//! What becomes of this library when the process forks: a child starts a record of its own,
//! if it uses OpenMP at all.
//!
//! A child has only the thread that forked. A lock that another one held at that moment would
//! never be let go in it, so that the forking thread takes all locks before.

use std::cell::UnsafeCell;
use std::sync::MutexGuard;

use crate::{arena, intervals, modules, places, process, thread};

/// All locks of this library. Whoever takes several takes them in this order.
struct Locks {
    creation: MutexGuard<'static, ()>,
    intervals: MutexGuard<'static, intervals::Described>,
    modules: MutexGuard<'static, modules::Known>,
    threads: MutexGuard<'static, thread::Spare>,
    growth: MutexGuard<'static, arena::Growth>,
}

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
    let locks = Locks {
        creation: process::creation(),
        intervals: intervals::described(),
        modules: modules::known(),
        threads: thread::spare(),
        growth: arena::growth(),
    };
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
    let Some(mut locks) = held() else { return };
    arena::forget(&mut locks.growth);
    intervals::forget(&mut locks.intervals);
    modules::forget(&mut locks.modules);
    thread::forget(&mut locks.threads);
    places::forget();
    process::start_time();
    drop(locks.creation);
}
