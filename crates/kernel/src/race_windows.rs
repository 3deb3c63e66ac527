//! The places at which another thread, or a signal, may come between two steps that belong
//! together. Tests make them wide: where `UNSPOOL_WIDEN_RACES` is set to a number, a thread that
//! passes one sometimes sleeps there, as the number and the order of passing decide, so that what
//! happens once in a million runs happens in some.
//!
//! What that costs is bounded ([`RandomWaits`]).

use crate::random_waits::RandomWaits;

const VARIABLE: &str = "UNSPOOL_WIDEN_RACES";

/// What the engine's windows do.
static WINDOWS: RandomWaits = RandomWaits::none(SHORT_NS, LONG_NS);
const SHORT_NS: i64 = 5_000;
/// Not longer: a program that a timer interrupts more often than that would not get on.
const LONG_NS: i64 = 300_000;

/// Looks whether windows are to be widened in this process.
pub fn settle() {
    let wish = std::env::var(VARIABLE).ok();
    let seed = wish.and_then(|seed| seed.parse::<u64>().ok());
    if let Some(seed) = seed {
        WINDOWS.begin(seed);
    }
}

/// A window. May be called wherever the engine runs, also in handlers and behind gates: it takes no
/// lock, allocates nothing, and leaves `errno` and vector registers alone.
#[inline]
#[track_caller]
pub fn widen() {
    if WINDOWS.have_begun() {
        WINDOWS.pass();
    }
}
