//! How many pages of memory each thread accesses. Threads of the program only store addresses; a
//! thread of the tool's own counts.

use std::collections::{BTreeMap, HashSet};

use unspool_tool::lock::Mutex;
use unspool_tool::{Address, Batch, Buffer, Superblock, Tool, effective_address, run, say};

struct PageCount {
    addresses: Buffer<PageCount, Address>,
    threads: Mutex<BTreeMap<u32, Accessed>>,
}

#[derive(Default)]
struct Accessed {
    accesses: usize,
    pages: HashSet<u64>,
}

impl PageCount {
    fn consume(&self, batch: Batch<Address>) {
        let mut threads = self.threads.lock();
        let accessed = threads.entry(batch.thread()).or_default();
        accessed.accesses += batch.len();
        accessed
            .pages
            .extend(batch.iter().map(|address| address.0 / 4096));
        if batch.is_last() {
            let (accesses, pages) = (accessed.accesses, accessed.pages.len());
            say(&format!(
                "thread {}: {accesses} accesses to {pages} pages",
                batch.thread()
            ));
        }
    }
}

impl Tool for PageCount {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            for address in instruction
                .memory_operands()
                .iter()
                .filter_map(effective_address)
            {
                instruction.before().append(self.addresses, (address,));
            }
        }
    }

    fn forked(&self, (): &mut ()) {
        // What was counted so far is the parent's.
        self.threads.lock().clear();
    }

    fn end(&self) {
        let consumption = self.addresses.consumption();
        say(&format!(
            "{} batches, {} of them at once; {} times a thread waited",
            consumption.batches, consumption.most_filled, consumption.waits
        ));
    }
}

fn main() {
    run(PageCount {
        addresses: Buffer::with_consumer(8192, 8, PageCount::consume),
        threads: Mutex::default(),
    });
}
