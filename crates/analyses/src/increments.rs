//! Did the threads see a shared counter in the order that the trace tells?
//!
//! Several threads increment one counter atomically, and each counts how often it did, how
//! often the counter was even just before, and how often its compare-and-swap failed. A
//! trace holds no values, but its order alone tells what they were: the nth successful
//! increment found n − 1. So a replay must come to the threads' own counts, and a trace in
//! a wrong order almost surely does not.
//!
//! Source: the test programs `inc` and `inc_cas` described in the README of
//! <https://github.com/stevenpelley/atomic-memory-trace>.

use std::collections::BTreeMap;

use serde::Serialize;
use unspool_events::{Access, AccessFlags, AccessKind, Event, Sink, ThreadEvent, ThreadId};

/// Replays the accesses to one counter. Takes the events in order of time.
#[derive(Debug, Clone)]
pub struct IncrementReplay {
    address: u64,
    value: u64,
    threads: BTreeMap<ThreadId, ThreadIncrements>,
    overlapping_accesses: u64,
}

/// What the replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IncrementReport {
    /// The counter's address.
    pub address: u64,
    /// Its value after the last increment.
    pub final_value: u64,
    /// What each thread did, for threads that accessed the counter, by thread.
    pub threads: Vec<ThreadIncrements>,
    /// Accesses that touch the counter's first byte without starting there: they are not
    /// understood, and there should be none.
    pub overlapping_accesses: u64,
}

/// What one thread did with the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ThreadIncrements {
    /// The thread's number in the trace.
    pub thread: u32,
    /// The number that the program gave the thread.
    pub registered_number: Option<i64>,
    /// Atomic writes that took effect.
    pub increments: u64,
    /// Those of them that found an even value.
    pub even_values: u64,
    /// Compare-and-swaps that failed.
    pub failed_swaps: u64,
    /// Reads, of any instruction.
    pub reads: u64,
    /// Writes that were not atomic: they should happen before the first increment only.
    pub plain_writes: u64,
}

impl IncrementReplay {
    /// A counter at this address, with this value before its first increment.
    #[must_use]
    pub fn new(address: u64, start: u64) -> IncrementReplay {
        IncrementReplay {
            address,
            value: start,
            threads: BTreeMap::new(),
            overlapping_accesses: 0,
        }
    }

    /// What came of it.
    #[must_use]
    pub fn finish(self) -> IncrementReport {
        let touched = |thread: &ThreadIncrements| {
            thread.increments + thread.failed_swaps + thread.reads + thread.plain_writes > 0
        };
        IncrementReport {
            address: self.address,
            final_value: self.value,
            threads: self.threads.into_values().filter(touched).collect(),
            overlapping_accesses: self.overlapping_accesses,
        }
    }

    fn thread(&mut self, thread: ThreadId) -> &mut ThreadIncrements {
        let counts = self.threads.entry(thread).or_default();
        counts.thread = thread.0;
        counts
    }

    fn replay(&mut self, thread: ThreadId, access: &Access) {
        let value = self.value;
        let counts = self.thread(thread);
        let failed = access.flags.contains(AccessFlags::FAILED_CAS);
        match access.kind {
            // A failed swap is counted at its read, because its write may be left out.
            AccessKind::Read => {
                counts.reads += 1;
                counts.failed_swaps += u64::from(failed);
            }
            AccessKind::Write if failed => {}
            AccessKind::Write if access.flags.contains(AccessFlags::ATOMIC) => {
                counts.increments += 1;
                counts.even_values += u64::from(value.is_multiple_of(2));
                self.value = value.wrapping_add(1);
            }
            AccessKind::Write => counts.plain_writes += 1,
        }
    }
}

impl Sink for IncrementReplay {
    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        for access in batch {
            if access.address == self.address {
                self.replay(thread, access);
            } else if self.address.wrapping_sub(access.address) < u64::from(access.size) {
                self.overlapping_accesses += 1;
            }
        }
    }

    fn event(&mut self, thread: ThreadId, _: u64, event: &Event) {
        if let Event::Thread(ThreadEvent::Registered { number, .. }) = event {
            self.thread(thread).registered_number = Some(*number);
        }
    }
}

#[cfg(test)]
mod tests;
