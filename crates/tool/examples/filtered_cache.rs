//! How many accesses miss a data cache of 32 KiB in each thread: eight ways of 64 sets, lines of 64
//! bytes, of each set the least recently used line is replaced.
//!
//! An access to the line that its set has had last hits, and changes nothing. The filter that says so
//! stands in the program's code, so that the simulation gets the others only. Of an access the first
//! byte counts.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Buffer, Counter, Superblock, ThreadInfo, Tool, effective_address, run, say,
};

const LINE: u64 = 64;
const SETS: usize = 64;
const WAYS: usize = 8;

struct FilteredCache {
    accesses: Counter,
    passed: Buffer<FilteredCache, Address>,
    simulated: AtomicU64,
    misses: AtomicU64,
}

/// A thread's cache. Lines are counted from 1; 0 is none.
struct Cache {
    /// The line that each set has had last.
    last: [u64; SETS],
    /// The lines of each set, the one that was used last first.
    sets: [[u64; WAYS]; SETS],
    simulated: u64,
    misses: u64,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            last: [0; SETS],
            sets: [[0; WAYS]; SETS],
            simulated: 0,
            misses: 0,
        }
    }
}

impl FilteredCache {
    /// Whether the access is none to the line that its set has had last.
    fn is_other(&self, cache: &mut Cache, at: Address) -> bool {
        let line = at.0 / LINE + 1;
        let last = &mut cache.last[line as usize % SETS];
        let is_other = *last != line;
        *last = line;
        is_other
    }

    fn simulate(&self, cache: &mut Cache, batch: &[Address]) {
        cache.simulated += batch.len() as u64;
        for address in batch {
            let line = address.0 / LINE + 1;
            let set = &mut cache.sets[line as usize % SETS];
            let known = set.iter().position(|it| *it == line);
            set[..=known.unwrap_or(WAYS - 1)].rotate_right(1);
            set[0] = line;
            cache.misses += u64::from(known.is_none());
        }
    }
}

impl Tool for FilteredCache {
    type Thread = Cache;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let operands = instruction.memory_operands().iter();
            for address in operands.filter_map(effective_address) {
                let before = instruction.before();
                before.count(self.accesses, 1);
                before.append_if(FilteredCache::is_other, (address,), self.passed, (address,));
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, cache: Cache) {
        self.simulated.fetch_add(cache.simulated, Ordering::Relaxed);
        self.misses.fetch_add(cache.misses, Ordering::Relaxed);
    }

    fn end(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        say(&format!("{} accesses", self.accesses.total()));
        say(&format!("{} simulated", of(&self.simulated)));
        say(&format!("{} misses", of(&self.misses)));
    }
}

fn main() {
    run(FilteredCache {
        accesses: Counter::new(),
        passed: Buffer::new(16 << 10, FilteredCache::simulate),
        simulated: AtomicU64::new(0),
        misses: AtomicU64::new(0),
    })
}
