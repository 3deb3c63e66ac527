//! The order in which threads end: `ends` sees what the tool knows of threads when another one has
//! joined them. Their last entries have been delivered by then, and their ends have been told.
//!
//! The tool takes its time at each end, so that a joiner would not be late by chance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use unspool_tool::{
    Address, Buffer, Counter, Image, InstructionPointer, Superblock, ThreadInfo, Tool, say,
};

/// The tool.
pub(crate) struct Ends {
    blocks: Buffer<Ends, Address>,
    executed: Counter,
    ended: AtomicU64,
    joined: AtomicU64,
    early: AtomicU64,
    lost: AtomicU64,
}

impl Ends {
    pub(crate) fn new() -> Ends {
        Ends {
            blocks: Buffer::new(1 << 12, Ends::delivered),
            executed: Counter::new(),
            ended: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            early: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    fn delivered(&self, count: &mut u64, batch: &[Address]) {
        *count += batch.len() as u64;
    }

    /// A thread has joined another one.
    fn joined(&self, _: &mut u64) {
        let joined = self.joined.fetch_add(1, Ordering::AcqRel) + 1;
        if joined > self.ended.load(Ordering::Acquire) {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tool for Ends {
    /// How many entries have been delivered.
    type Thread = u64;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for block in superblock.blocks() {
            let first = block.instructions().next();
            let first = first.expect("a block has an instruction");
            first.before().count(self.executed, 1);
            first.before().append(self.blocks, (InstructionPointer,));
        }
    }

    fn image_load(&self, image: &Image<Self>) {
        for routine in image.routines_named("pthread_join") {
            routine.exit().call(Ends::joined, ());
        }
    }

    fn thread_end(&self, thread: &ThreadInfo, delivered: u64) {
        if delivered != self.executed.of_this_thread() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        if thread.number != 0 {
            std::thread::sleep(Duration::from_millis(1));
            self.ended.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn end(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        say(&format!(
            "ends: {} before they were told, {} without their last entries, of {}",
            of(&self.early),
            of(&self.lost),
            of(&self.joined)
        ));
    }
}
