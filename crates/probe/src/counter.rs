//! Counting in many threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::inside::thread_pointer;

const SHARDS: usize = 64;

/// A number that threads add to without being in each other's way. Exact: nothing that was added
/// is missing from [`Counter::total`].
#[derive(Debug)]
pub struct Counter {
    shards: [Shard; SHARDS],
}

#[derive(Debug)]
#[repr(align(64))]
struct Shard(AtomicU64);

impl Counter {
    /// Zero.
    #[must_use]
    pub const fn new() -> Counter {
        Counter {
            shards: [const { Shard(AtomicU64::new(0)) }; SHARDS],
        }
    }

    /// Adds to it.
    #[inline]
    pub fn add(&self, number: u64) {
        // Control blocks of threads lie a stack's size apart, and that is a round number.
        let mixed = thread_pointer().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = (mixed >> 58) as usize;
        self.shards[shard].0.fetch_add(number, Ordering::Relaxed);
    }

    /// All that was added.
    #[must_use]
    pub fn total(&self) -> u64 {
        let parts = self
            .shards
            .iter()
            .map(|shard| shard.0.load(Ordering::Relaxed));
        parts.fold(0, u64::wrapping_add)
    }

    /// Starts again.
    pub fn reset(&self) {
        for shard in &self.shards {
            shard.0.store(0, Ordering::Relaxed);
        }
    }

    /// Where what counts without a call may add.
    pub(crate) fn address(&'static self) -> u64 {
        self.shards[0].0.as_ptr().expose_provenance() as u64
    }
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}
