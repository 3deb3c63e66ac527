//! Adds up the addresses of all memory accesses: the least that a tool can do with each of them.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Address, Buffer, ElementAddress, Superblock, ThreadInfo, Tool, say};

/// Entries of a batch.
const BATCH: usize = 64 << 10;

/// Adds up addresses.
pub struct AddressSum {
    accesses: Buffer<AddressSum, Address>,
    count: AtomicU64,
    sum: AtomicU64,
}

/// Accesses, and the sum of their addresses.
#[derive(Default)]
pub struct Thread {
    count: u64,
    sum: u64,
}

impl AddressSum {
    /// Nothing added yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a buffer is a resource")]
    pub fn new() -> AddressSum {
        AddressSum {
            accesses: Buffer::new(BATCH, AddressSum::add),
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn add(&self, thread: &mut Thread, batch: &[Address]) {
        thread.count += batch.len() as u64;
        let sum = batch
            .iter()
            .fold(0_u64, |sum, address| sum.wrapping_add(address.0));
        thread.sum = thread.sum.wrapping_add(sum);
    }
}

impl Tool for AddressSum {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            instruction.append_accesses(self.accesses, (ElementAddress,));
        }
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Thread) {
        self.count.fetch_add(thread.count, Ordering::Relaxed);
        self.sum.fetch_add(thread.sum, Ordering::Relaxed);
    }

    fn forked(&self, thread: &mut Thread) {
        *thread = Thread::default();
        self.count.store(0, Ordering::Relaxed);
        self.sum.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        say(&format!(
            "{} accesses, their addresses' sum {:#x}",
            self.count.load(Ordering::Relaxed),
            self.sum.load(Ordering::Relaxed)
        ));
    }
}
