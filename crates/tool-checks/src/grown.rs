//! How far stacks have grown, as a tool is told, beside what entries say is accessed there and what
//! `/proc/self/maps` says at that moment: a line for what is told of the first thread's stack and of
//! what is between 16 and 32 TiB, and counts at the end of each process.
//!
//! With `deaf`, the tool does not hear of growth.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Buffer, ElementAddress, ElementSize, MappingCause, MappingChange, Superblock,
    ThreadInfo, Tool, entry, say,
};

use crate::asked;

entry! {
    /// An access.
    struct Access {
        address: Address,
        size: u32,
    }
}

/// Where guests put mappings of their own that grow.
const OWN: Range<u64> = 1 << 44..1 << 45;
/// Bytes below the end of a stack that are looked at: nothing else comes to lie there.
const DEPTH: u64 = 128 << 20;

/// The tool.
pub(crate) struct Grown {
    accesses: Buffer<Grown, Access>,
    seen: Mutex<Seen>,
    accessed: AtomicU64,
    outside: AtomicU64,
    wrong: AtomicU64,
}

#[derive(Default)]
struct Seen {
    stack: Range<u64>,
    /// Ends of what is mapped as far as has been told, by starts.
    mapped: BTreeMap<u64, u64>,
}

impl Seen {
    fn concerns(&self, address: u64) -> bool {
        self.stack.contains(&address) || OWN.contains(&address)
    }

    /// Takes a range away, and what reaches over its ends to there.
    fn unmap(&mut self, range: &Range<u64>) {
        let overlap: Vec<_> = self
            .mapped
            .range(..range.end)
            .filter(|&(_, &end)| end > range.start)
            .map(|(&start, &end)| start..end)
            .collect();
        for old in overlap {
            self.mapped.remove(&old.start);
            for rest in [old.start..range.start, range.end..old.end] {
                if rest.start < rest.end {
                    self.mapped.insert(rest.start, rest.end);
                }
            }
        }
    }

    /// Whether all of an access is mapped, in however many pieces.
    fn holds(&self, access: Range<u64>) -> bool {
        let mut at = access.start;
        while at < access.end {
            match self.mapped.range(..=at).next_back() {
                Some((_, &end)) if end > at => at = end,
                _ => return false,
            }
        }
        true
    }
}

impl Grown {
    pub(crate) fn new() -> Grown {
        Grown {
            accesses: Buffer::new(1, Grown::look).at_system_calls(),
            seen: Mutex::default(),
            accessed: AtomicU64::new(0),
            outside: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    fn look(&self, (): &mut (), batch: &[Access]) {
        let seen = self.seen.lock();
        for access in batch {
            let start = access.address.0;
            if !seen.concerns(start) || access.size == 0 {
                continue;
            }
            self.accessed.fetch_add(1, Ordering::Relaxed);
            let is_known = seen.holds(start..start + u64::from(access.size));
            self.outside
                .fetch_add(u64::from(!is_known), Ordering::Relaxed);
        }
    }
}

/// Whether a mapping starts there, and the whole range is mapped, as the kernel says.
fn is_in_maps(range: &Range<u64>) -> bool {
    let text = std::fs::read_to_string("/proc/self/maps").expect("there is /proc");
    let mut at = range.start;
    for line in text.lines() {
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        let (bounds, _) = line.split_once(' ').expect("a line of the kernel's");
        let (start, end) = bounds.split_once('-').expect("a range");
        let (start, end) = (number(start), number(end));
        if start == range.start || at > range.start && start == at {
            at = end;
        }
    }
    at >= range.end
}

impl Tool for Grown {
    type Thread = ();
    const STACK_GROWTH: bool = true;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            instruction.append_accesses(self.accesses, (ElementAddress, ElementSize));
        }
    }

    fn thread_start(&self, thread: &ThreadInfo, (): &mut ()) {
        if thread.number == 0 {
            let end = thread.stack.end;
            let is_right = thread.stack_reach.end == end && thread.stack_reach.start <= end - DEPTH;
            let is_right = is_right && is_in_maps(&thread.stack);
            self.wrong
                .fetch_add(u64::from(!is_right), Ordering::Relaxed);
            self.seen.lock().stack = end - DEPTH..end;
        }
    }

    fn mapping(&self, (): &mut (), change: &MappingChange) {
        let has_grown = change.cause == MappingCause::Growth;
        if has_grown && asked("deaf") {
            return;
        }
        let mut seen = self.seen.lock();
        seen.unmap(&change.range);
        for mapping in &change.mapped {
            let Range { start, end } = mapping.range;
            seen.mapped.insert(start, end);
            if seen.concerns(start) {
                let kind = if has_grown { "grown" } else { "mapped" };
                say(&format!("told {kind} {start:x}"));
            }
        }
        if has_grown {
            let whole = change.mapped.len() == 1 && change.mapped[0].range == change.range;
            let is_right = whole && is_in_maps(&change.range);
            self.wrong
                .fetch_add(u64::from(!is_right), Ordering::Relaxed);
        }
    }

    fn forked(&self, (): &mut ()) {
        self.accessed.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        say(&format!(
            "growth: {} outside of what was told, {} not as mapped, of {} accesses",
            count(&self.outside),
            count(&self.wrong),
            count(&self.accessed)
        ));
    }
}
