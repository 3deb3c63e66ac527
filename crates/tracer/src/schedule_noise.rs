//! Noise in the schedule of the program's threads: where they start, where they are about to learn
//! of another's accesses, and before system calls, threads wait now and then, so that they meet in
//! orders in which they would seldom meet by themselves. A race that nothing but luck orders shows in
//! the other order.
//!
//! A thread that waits is safe for the others, which go on. Source: Edelstein, Farchi, Nir, Ratsaby
//! and Ur, *Multithreaded Java program test generation* (IBM Systems Journal, 2002), whose noise is
//! made at accesses to shared variables, too.

use unspool_kernel::random_waits::RandomWaits;

/// The noise of this process.
static NOISE: RandomWaits = RandomWaits::none(SHORT_NS, LONG_NS);
/// Enough for another thread to take and give a lock.
const SHORT_NS: i64 = 100_000;
/// Enough for another thread to start, be translated and run for a while.
const LONG_NS: i64 = 20_000_000;

/// Begins where a number is given, other than 0.
pub(crate) fn settle(seed: u64) {
    if seed != 0 {
        NOISE.begin(seed);
    }
}

/// Whether there is any.
#[inline]
pub(crate) fn is_made() -> bool {
    NOISE.have_begun()
}

/// A safe thread is about to do something that others may notice, or to notice something.
#[inline]
#[track_caller]
pub(crate) fn make() {
    if is_made() {
        NOISE.pass();
    }
}

/// The same for the first time in its life: it may as well wait for longer.
#[inline]
#[track_caller]
pub(crate) fn make_at_start() {
    if is_made() {
        NOISE.pass_long();
    }
}
