//! Simulates a data cache for each thread, and tells how many accesses miss it.
//!
//! 32 KiB in lines of 64 bytes, eight ways, the least recently used line replaced. An access that
//! touches two lines counts once for each. Each element of gathers, scatters, masked operands and
//! repeated string instructions is an access.

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Buffer, ElementAddress, ElementIsWritten, ElementSize, Superblock, ThreadInfo, Tool,
    entry, say,
};

const LINE: u64 = 64;
const WAYS: usize = 8;
const SETS: usize = (32 << 10) / LINE as usize / WAYS;
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

/// Hits and misses, of reads and of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    accesses: [u64; 2],
    misses: [u64; 2],
}

/// Simulates caches.
pub struct Cache {
    accesses: Buffer<Cache, Access>,
    all: Mutex<Counts>,
}

/// A thread's cache.
pub struct Thread {
    /// The lines of each set, the one that was used last first; 0 for none.
    sets: Vec<[u64; WAYS]>,
    counts: Counts,
}

impl Default for Thread {
    fn default() -> Thread {
        Thread {
            sets: vec![[0; WAYS]; SETS],
            counts: Counts::default(),
        }
    }
}

impl Thread {
    /// Whether a line is there; it is afterwards.
    fn touch(&mut self, line: u64) -> bool {
        let set = &mut self.sets[line as usize % SETS];
        // No line has the number 0 so.
        let wanted = line + 1;
        if set[0] == wanted {
            return true;
        }
        let known = set.iter().position(|&line| line == wanted);
        set[..=known.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = wanted;
        known.is_some()
    }
}

impl Cache {
    /// Empty caches.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a buffer is a resource")]
    pub fn new() -> Cache {
        Cache {
            accesses: Buffer::new(BATCH, Cache::access),
            all: Mutex::default(),
        }
    }

    fn access(&self, thread: &mut Thread, batch: &[Access]) {
        for access in batch {
            let last = access
                .address
                .0
                .wrapping_add(u64::from(access.size.max(1)) - 1);
            for line in access.address.0 / LINE..=last / LINE {
                let hit = thread.touch(line);
                let kind = usize::from(access.is_write);
                thread.counts.accesses[kind] += 1;
                thread.counts.misses[kind] += u64::from(!hit);
            }
        }
    }
}

impl Tool for Cache {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let access = (ElementAddress, ElementSize, ElementIsWritten);
        for instruction in superblock.instructions() {
            instruction.append_accesses(self.accesses, access);
        }
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Thread) {
        let mut all = self.all.lock();
        for kind in 0..2 {
            all.accesses[kind] += thread.counts.accesses[kind];
            all.misses[kind] += thread.counts.misses[kind];
        }
    }

    fn forked(&self, thread: &mut Thread) {
        thread.counts = Counts::default();
        *self.all.lock() = Counts::default();
    }

    fn end(&self) {
        let all = self.all.lock();
        say(&format!(
            "{} reads, {} misses; {} writes, {} misses",
            all.accesses[0], all.misses[0], all.accesses[1], all.misses[1]
        ));
    }
}
