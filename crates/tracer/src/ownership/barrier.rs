//! A moment that all threads have in common, at which nobody owns anything.
//!
//! Epochs of read-shared lines can only be counted so far. Before they are at their end, all
//! threads leave the code cache, and each one's time goes on behind whatever any of them has
//! recorded so far: the first access to a line comes later than all accesses before the moment,
//! whoever makes it. So all owner words can begin anew, and epochs as well; or the lines of some
//! memory get their owners elsewhere.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Acquisition, Owner, Ownership, words};
use crate::slots as trace_slots;
use crate::trace_buffer::TraceBuffer;

/// More than the time that a thread can reach outside the cache from what it has shown when it
/// went there: it records events, some for each buffer of a system call.
const OUTSIDE: u64 = 1 << 24;

/// Moments that all threads have in common.
#[derive(Debug, Default)]
pub(super) struct Barrier {
    /// Whether there is to be one.
    wanted: AtomicBool,
    /// How many there were.
    passed: AtomicU64,
    /// How many of them began the epochs anew.
    anew: AtomicU64,
    /// The time of the last one, which nothing before it exceeds.
    time: AtomicU64,
    /// Threads that take lines outside the cache.
    taking: AtomicU64,
    /// Whether no thread is to begin with that.
    closed: AtomicBool,
}

impl Barrier {
    /// Asks for one.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    /// In a forked child, or a file of its own: there was none.
    pub(super) fn forget(&self) {
        self.wanted.store(false, Ordering::SeqCst);
        self.passed.store(0, Ordering::SeqCst);
        self.anew.store(0, Ordering::SeqCst);
        self.taking.store(0, Ordering::SeqCst);
        self.closed.store(false, Ordering::SeqCst);
    }
}

impl Ownership {
    /// How often epochs began anew.
    pub(crate) fn epochs_begun_anew(&self) -> u64 {
        self.barrier.anew.load(Ordering::SeqCst)
    }

    /// Whether the code cache is to be emptied, because all threads have to meet.
    pub(crate) fn wants_to_meet(&self) -> bool {
        self.barrier.wanted.load(Ordering::Relaxed)
    }

    /// All threads are outside the cache, and stay there: those that have to meet do.
    pub(crate) fn meet(&self, buffer: &mut TraceBuffer, owner: &mut Owner) {
        let barrier = &self.barrier;
        if !barrier.wanted.swap(false, Ordering::SeqCst) {
            return;
        }
        // Who takes lines may want some of this thread's.
        self.enter_safe(buffer, owner);
        self.have_in_common(|| {
            if !words::forget() {
                return false;
            }
            self.aliases.mark_again(self);
            self.epoch.store(0, Ordering::SeqCst);
            barrier.anew.fetch_add(1, Ordering::SeqCst);
            true
        });
        self.leave_safe(buffer, owner);
    }

    /// All threads are outside the cache, and stay there; this one is safe. Changes who owns what
    /// while nobody takes lines. If it does (true), all have the moment in common.
    pub(super) fn have_in_common(&self, change: impl FnOnce() -> bool) {
        let barrier = &self.barrier;
        while barrier.closed.swap(true, Ordering::SeqCst) {
            std::thread::yield_now();
        }
        while barrier.taking.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        if change() {
            let time = self.latest_time().saturating_add(OUTSIDE);
            barrier.time.store(time, Ordering::SeqCst);
            self.shared_clock.store(time, Ordering::SeqCst);
            barrier.passed.fetch_add(1, Ordering::SeqCst);
        }
        barrier.closed.store(false, Ordering::SeqCst);
    }

    /// The thread goes on behind the last moment that all have had in common.
    pub(crate) fn pass_barrier(&self, buffer: &mut TraceBuffer, owner: &mut Owner) {
        let barrier = &self.barrier;
        let passed = barrier.passed.load(Ordering::SeqCst);
        if owner.barriers == passed {
            return;
        }
        owner.barriers = passed;
        buffer.stamp_next(barrier.time.load(Ordering::SeqCst) + 1);
        trace_slots::of(buffer.slots)
            .shared_seen
            .set(u64::from(u32::MAX));
    }

    /// Before the engine writes program memory on the kernel's behalf: takes the lines, so that
    /// whoever sees the values comes later. The thread is out of the cache; the next event gets
    /// its time.
    pub(crate) fn own(&self, buffer: &mut TraceBuffer, owner: &mut Owner, address: u64, size: u64) {
        if !self.is_checking() {
            return;
        }
        self.begin_taking(buffer, owner);
        self.pass_barrier(buffer, owner);
        let bound = buffer.bound(buffer.position());
        let mut acquisition = Acquisition::new(self, buffer.slots, owner, bound);
        acquisition.acquire_range(address, size, true);
        let least = acquisition.least;
        if least > buffer.reached {
            buffer.stamp_next(least);
        }
        self.barrier.taking.fetch_sub(1, Ordering::SeqCst);
    }

    /// The thread takes lines outside the cache from now on, between two such moments.
    fn begin_taking(&self, buffer: &mut TraceBuffer, owner: &Owner) {
        let barrier = &self.barrier;
        loop {
            barrier.taking.fetch_add(1, Ordering::SeqCst);
            if !barrier.closed.load(Ordering::SeqCst) {
                break;
            }
            barrier.taking.fetch_sub(1, Ordering::SeqCst);
            self.enter_safe(buffer, owner);
            while barrier.closed.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            self.leave_safe(buffer, owner);
        }
    }
}
