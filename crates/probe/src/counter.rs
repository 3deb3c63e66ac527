//! Counting in many threads.

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::inside::thread_pointer;

const SHARDS: usize = 64;

/// A number that threads add to without being in each other's way. Exact: nothing that was added
/// is missing from [`Counter::total`].
#[derive(Debug)]
pub struct Counter {
    shards: [Shard; SHARDS],
}

/// A part of the number that one thread adds to without locking the bus, which takes longer than
/// all else that a wrapper of `malloc` does.
#[derive(Debug)]
#[repr(align(64))]
struct Shard {
    /// The thread pointer of the thread that came first; 0 for none yet. No two threads that run
    /// have the same, and one that gets that of a thread that is gone takes over.
    owner: AtomicU64,
    /// What the owner has added.
    owned: AtomicU64,
    /// What others have.
    shared: AtomicU64,
}

impl Shard {
    const fn new() -> Shard {
        Shard {
            owner: AtomicU64::new(0),
            owned: AtomicU64::new(0),
            shared: AtomicU64::new(0),
        }
    }

    #[inline]
    fn add(&self, thread: u64, number: u64) {
        if self.owner.load(Ordering::Relaxed) == thread || self.is_taken_by(thread) {
            // In one instruction, so that a signal's handler that adds as well comes before or
            // after it.
            // SAFETY: the word is this thread's to write.
            unsafe {
                asm!("add qword ptr [{}], {}", in(reg) self.owned.as_ptr(), in(reg) number, options(nostack));
            }
        } else {
            self.shared.fetch_add(number, Ordering::Relaxed);
        }
    }

    #[cold]
    fn is_taken_by(&self, thread: u64) -> bool {
        let taken = self
            .owner
            .compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed);
        // A handler of this thread's may have taken it just now.
        taken.is_ok() || taken == Err(thread)
    }
}

impl Counter {
    /// Zero.
    #[must_use]
    pub const fn new() -> Counter {
        Counter {
            shards: [const { Shard::new() }; SHARDS],
        }
    }

    /// Adds to it.
    #[inline]
    pub fn add(&self, number: u64) {
        let thread = thread_pointer();
        // Control blocks of threads lie a stack's size apart, and that is a round number.
        let mixed = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.shards[(mixed >> 58) as usize].add(thread, number);
    }

    /// All that was added.
    #[must_use]
    pub fn total(&self) -> u64 {
        let words = self
            .shards
            .iter()
            .flat_map(|shard| [&shard.owned, &shard.shared]);
        words.fold(0, |sum, word| {
            sum.wrapping_add(word.load(Ordering::Relaxed))
        })
    }

    /// Starts again.
    pub fn reset(&self) {
        for shard in &self.shards {
            shard.owned.store(0, Ordering::Relaxed);
            shard.shared.store(0, Ordering::Relaxed);
        }
    }

    /// Where what counts without a call may add, with the bus locked.
    pub(crate) fn address(&'static self) -> u64 {
        self.shards[0].shared.as_ptr().expose_provenance() as u64
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_missing() {
        static COUNTER: Counter = Counter::new();
        // More threads than shards, so that some have one of their own and some do not; those of
        // the second round get what is left by the first.
        for _ in 0..2 {
            let threads: Vec<_> = (0..2 * SHARDS as u64)
                .map(|thread| {
                    std::thread::spawn(move || {
                        for round in 0..1000 {
                            COUNTER.add(round * thread);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
        }
        let all = 2 * SHARDS as u64;
        assert_eq!(
            COUNTER.total(),
            2 * (999 * 1000 / 2) * (all * (all - 1) / 2)
        );
    }
}
