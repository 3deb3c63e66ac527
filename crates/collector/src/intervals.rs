//! Intervals that a program marks, through the library that instrumented programs are
//! linked with.

use std::collections::BTreeSet;
use std::sync::Mutex;

use unspool_openmp_record::Kind;
use unspool_openmp_record::layout::entry;

use crate::{arena, clock, thread};

/// Names that have been described, by process and number.
static DESCRIBED: Mutex<BTreeSet<(u32, u64)>> = Mutex::new(BTreeSet::new());

// SAFETY: no other library has this name; the caller gives a name by its place and length.
#[unsafe(no_mangle)]
unsafe extern "C" fn unspool_openmp_enter_interval(number: u64, name: *const u8, bytes: usize) {
    let Some(thread) = thread::current() else {
        return;
    };
    let is_new = DESCRIBED
        .lock()
        .is_ok_and(|mut described| described.insert((std::process::id(), number)));
    if is_new {
        // SAFETY: as the caller promises.
        let name = unsafe { std::slice::from_raw_parts(name, bytes) };
        arena::describe(entry::NAME, &[number], name);
    }
    thread.enter(Kind::Interval, 0, number, clock::now());
}

// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn unspool_openmp_leave_interval() {
    if let Some(thread) = thread::current() {
        thread.leave_through(Kind::Interval, clock::now());
    }
}
