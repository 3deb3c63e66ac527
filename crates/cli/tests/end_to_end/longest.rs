//! Which tests take longest: what to look at when a run of all takes too long.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SHOWN: usize = 20;

static DURATIONS: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// A test has taken that long.
pub(crate) fn took(name: &str, duration: Duration) {
    let mut all = DURATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    all.push((duration, name.to_owned()));
}

/// Says it, if more tests ran than are shown.
pub(crate) fn report() {
    let mut all = DURATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() <= SHOWN {
        return;
    }
    all.sort_by(|one, other| other.cmp(one));
    println!("\nthe tests that took longest:");
    for (duration, name) in &all[..SHOWN] {
        println!("{:7.1} s  {name}", duration.as_secs_f64());
    }
}
