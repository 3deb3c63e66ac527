//! Tells how many bytes of memory a program reads and writes, and how many different pages and
//! lines of the cache they are in.

use std::collections::HashSet;

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Buffer, ElementAddress, ElementIsWritten, ElementSize, Superblock, ThreadInfo, Tool,
    entry, say,
};

const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// Entries of a batch.
const BATCH: usize = 16 << 10;

entry! {
    /// An access.
    struct Access {
        address: Address,
        size: u32,
        is_write: bool,
    }
}

/// Adds up accesses.
pub struct MemoryFootprint {
    accesses: Buffer<MemoryFootprint, Access>,
    all: Mutex<Footprint>,
}

/// What a thread has accessed.
#[derive(Default)]
pub struct Footprint {
    read: u64,
    written: u64,
    lines: HashSet<u64>,
    last_line: Option<u64>,
}

impl MemoryFootprint {
    /// Nothing accessed yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a buffer is a resource")]
    pub fn new() -> MemoryFootprint {
        MemoryFootprint {
            accesses: Buffer::new(BATCH, MemoryFootprint::add),
            all: Mutex::default(),
        }
    }

    fn add(&self, thread: &mut Footprint, batch: &[Access]) {
        for access in batch {
            let bytes = if access.is_write {
                &mut thread.written
            } else {
                &mut thread.read
            };
            let size = u64::from(access.size);
            *bytes += size;
            let last = access.address.0.wrapping_add(size.saturating_sub(1));
            for line in access.address.0 / LINE..=last / LINE {
                if thread.last_line != Some(line) {
                    thread.last_line = Some(line);
                    thread.lines.insert(line);
                }
            }
        }
    }
}

impl Tool for MemoryFootprint {
    type Thread = Footprint;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let access = (ElementAddress, ElementSize, ElementIsWritten);
        for instruction in superblock.instructions() {
            instruction.append_accesses(self.accesses, access);
        }
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Footprint) {
        let mut all = self.all.lock();
        all.read += thread.read;
        all.written += thread.written;
        all.lines.extend(thread.lines);
    }

    fn forked(&self, thread: &mut Footprint) {
        *thread = Footprint::default();
        *self.all.lock() = Footprint::default();
    }

    fn end(&self) {
        let all = self.all.lock();
        let pages: HashSet<u64> = all.lines.iter().map(|line| line / (PAGE / LINE)).collect();
        say(&format!(
            "{} bytes read, {} written, in {} lines on {} pages",
            all.read,
            all.written,
            all.lines.len(),
            pages.len()
        ));
    }
}
