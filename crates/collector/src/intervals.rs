//! Intervals that a program marks, through the library that instrumented programs are
//! linked with.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::description;
use unspool_preload::clock;

use crate::{arena, thread};

/// Numbers of names that have been described.
pub(crate) type Described = BTreeSet<u64>;

static DESCRIBED: Mutex<Described> = Mutex::new(BTreeSet::new());

/// Numbers of names that have been described.
pub(crate) fn described() -> MutexGuard<'static, Described> {
    DESCRIBED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets what was described, in a child that starts a file of its own.
pub(crate) fn forget(described: &mut Described) {
    described.clear();
}

// SAFETY: no other library has this name; the caller gives a name by its place and length.
#[unsafe(no_mangle)]
unsafe extern "C" fn unspool_openmp_enter_interval(number: u64, name: *const u8, bytes: usize) {
    let Some(thread) = thread::current() else {
        return;
    };
    let is_new = described().insert(number);
    if is_new {
        // SAFETY: as the caller promises.
        let name = unsafe { std::slice::from_raw_parts(name, bytes) };
        arena::describe(description::NAME, &[number], name);
    }
    thread.enter(ConstructKind::Interval, 0, number, clock::now());
}

// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn unspool_openmp_leave_interval() {
    if let Some(thread) = thread::current() {
        thread.leave_through(ConstructKind::Interval, clock::now());
    }
}
