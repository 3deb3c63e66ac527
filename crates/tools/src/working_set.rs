//! Tells how many pages each thread touches in each window of a million accesses: its working
//! set (Denning, "The working set model for program behavior", CACM 11 (5), 1968).

use std::collections::HashSet;

use unspool_tool::lock::Mutex;
use unspool_tool::{Address, Buffer, ElementAddress, Superblock, ThreadInfo, Tool, say};

const PAGE: u64 = 4096;
/// Accesses of a window.
const WINDOW: u64 = 1_000_000;
/// Entries of a batch.
const BATCH: usize = 32 << 10;

/// Collects working sets.
pub struct WorkingSet {
    accesses: Buffer<WorkingSet, Address>,
    all: Mutex<Vec<(u32, Vec<usize>)>>,
}

/// A thread's present window, and the sizes of those before.
#[derive(Default)]
pub struct Thread {
    accesses: u64,
    pages: HashSet<u64>,
    last_page: Option<u64>,
    sizes: Vec<usize>,
}

impl WorkingSet {
    /// Nothing touched yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a buffer is a resource")]
    pub fn new() -> WorkingSet {
        WorkingSet {
            accesses: Buffer::new(BATCH, WorkingSet::add),
            all: Mutex::default(),
        }
    }

    fn add(&self, thread: &mut Thread, batch: &[Address]) {
        for address in batch {
            let page = Some(address.0 / PAGE);
            if thread.last_page != page {
                thread.last_page = page;
                thread.pages.extend(page);
            }
            thread.accesses += 1;
            if thread.accesses == WINDOW {
                thread.close();
            }
        }
    }
}

impl Thread {
    fn close(&mut self) {
        self.sizes.push(self.pages.len());
        self.pages.clear();
        (self.accesses, self.last_page) = (0, None);
    }
}

impl Tool for WorkingSet {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            instruction.append_accesses(self.accesses, (ElementAddress,));
        }
    }

    fn thread_end(&self, info: &ThreadInfo, mut thread: Thread) {
        if thread.accesses != 0 {
            thread.close();
        }
        let mut all = self.all.lock();
        all.push((info.number, thread.sizes));
    }

    fn forked(&self, thread: &mut Thread) {
        *thread = Thread::default();
        self.all.lock().clear();
    }

    fn end(&self) {
        let mut all = self.all.lock();
        all.sort_unstable();
        let mut text = format!("pages in each {WINDOW} accesses:");
        for (thread, sizes) in &*all {
            let largest = sizes.iter().max().copied().unwrap_or(0);
            let mean = sizes.iter().sum::<usize>() as f64 / sizes.len().max(1) as f64;
            text.push_str(&format!(
                "\nthread {thread}: {} windows, {mean:.1} on average, {largest} at most",
                sizes.len()
            ));
        }
        say(&text);
    }
}
