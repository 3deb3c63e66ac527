//! Tools that allocate more and more: the process ends before the machine, or a control group, has no
//! memory left, and says where the tool wants it. Otherwise the kernel would kill some process, and
//! nobody would know why.
//!
//! What is allocated and not freed is counted, by each thread for itself until it comes to
//! something. Only where it has grown by [`STEP`] is the kernel asked how much is left. What is mapped
//! beside the allocator does not count: shadow memory, counters and buffers are bounded otherwise, or
//! take only what is written.
//!
//! Where the tool and the engine have little of what there is, nothing is done: it is the program, or
//! somebody else, who uses it up, and the kernel decides as it would natively.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use unspool_kernel::lock::OnceLock;
use unspool_kernel::memory_left::{MemoryLeft, MemorySources, Owner};

/// Up to so many bytes more or less a thread counts for itself.
const QUANTUM: i64 = 64 << 10;
/// By how much more is allocated before it is looked whether there is enough left.
const STEP: i64 = 8 << 20;
/// The least that must be left, so that it can be said where the memory went: the names of functions
/// take some.
const LEAST_RESERVE: u64 = 48 << 20;
const LARGEST_RESERVE: u64 = 256 << 20;
/// What part of all memory must be left, within these bounds; and what part the tool and the engine
/// must have so that they are to blame.
const SHARE: u64 = 16;

/// What all threads have allocated and not freed, in bytes, as far as they have told.
static HELD: AtomicI64 = AtomicI64::new(0);
/// Where it is to be looked next.
static NEXT: AtomicI64 = AtomicI64::new(i64::MAX);
static SOURCES: OnceLock<MemorySources> = OnceLock::new();

thread_local! {
    /// What the thread has not told yet.
    static UNTOLD: Cell<i64> = const { Cell::new(0) };
}

/// From now on there must be some memory left.
pub(super) fn watch() {
    let _ = SOURCES.set(MemorySources::open());
    NEXT.store(HELD.load(Ordering::Relaxed) + STEP, Ordering::Relaxed);
}

/// Nobody looks any more: the process ends.
pub(super) fn look_no_more() {
    NEXT.store(i64::MAX, Ordering::Relaxed);
}

/// The descriptors that are needed to look.
pub(super) fn files() -> Vec<i32> {
    let sources = SOURCES.get().into_iter();
    sources.flat_map(MemorySources::files).collect()
}

/// The thread has got so many bytes more, of which none has been written yet, or has freed some.
/// Returns what it is to end for, if it is.
#[inline]
pub(super) fn counts(bytes: i64, unwritten: usize) -> Option<Shortage> {
    let untold = UNTOLD.get() + bytes;
    if untold.abs() < QUANTUM {
        UNTOLD.set(untold);
        return None;
    }
    UNTOLD.set(0);
    tell(untold, unwritten)
}

/// The thread ends.
pub(crate) fn thread_ends() {
    HELD.fetch_add(UNTOLD.replace(0), Ordering::Relaxed);
}

#[cold]
fn tell(bytes: i64, unwritten: usize) -> Option<Shortage> {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    let next = NEXT.load(Ordering::Relaxed);
    if next == i64::MAX {
        return None;
    }
    if held < next {
        // Others may take what has been freed.
        NEXT.fetch_min(held + STEP, Ordering::Relaxed);
        return None;
    }
    NEXT.store(held + STEP, Ordering::Relaxed);
    let left = SOURCES.get()?.left()?;
    let unwritten = unwritten as u64;
    // What it takes so far.
    let held = held.unsigned_abs().saturating_sub(unwritten);
    Shortage::of(left, held, unwritten)
}

/// There is too little memory left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shortage {
    memory: MemoryLeft,
    /// What the tool and the engine have allocated before.
    held: u64,
}

impl Shortage {
    fn of(memory: MemoryLeft, held: u64, unwritten: u64) -> Option<Shortage> {
        let reserve = (memory.total / SHARE).clamp(LEAST_RESERVE, LARGEST_RESERVE);
        let is_short = memory.left < reserve.saturating_add(unwritten);
        let have_much = held >= memory.total / SHARE;
        (is_short && have_much).then_some(Shortage { memory, held })
    }

    /// Whether the tool and the engine have most of what is used.
    pub(super) fn is_own(&self) -> bool {
        let used = self.memory.total.saturating_sub(self.memory.left);
        self.held > used / 2
    }

    /// What can be done about it.
    pub(super) fn help(&self) -> &'static str {
        match self.memory.of {
            Owner::Machine => {
                "help: let less run beside it, or run it where there is more memory\n"
            }
            Owner::ControlGroup => "help: raise the limit of the control group (memory.max)\n",
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |bytes: u64| bytes >> 20;
        let MemoryLeft { left, total, of } = self.memory;
        let owner = match of {
            Owner::Machine => "the machine",
            Owner::ControlGroup => "its control group",
        };
        write!(
            out,
            "{} MiB of memory are left of the {} MiB that {owner} has; the tool and unspool have allocated {} MiB",
            mebibytes(left),
            mebibytes(total),
            mebibytes(self.held)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    /// What is said of so many MiB: left, of all, allocated by the tool and by the engine, and wanted.
    fn short(left: u64, total: u64, held: u64, unwritten: u64) -> Option<Shortage> {
        let memory = MemoryLeft {
            left: left * MEBIBYTE,
            total: total * MEBIBYTE,
            of: Owner::Machine,
        };
        Shortage::of(memory, held * MEBIBYTE, unwritten * MEBIBYTE)
    }

    #[test]
    fn a_reserve_is_left() {
        assert_eq!(short(300, 24_000, 20_000, 0), None);
        assert!(short(200, 24_000, 20_000, 0).is_some());
        assert!(short(300, 24_000, 20_000, 100).is_some());
        assert_eq!(short(60, 256, 150, 0), None);
        assert!(short(40, 256, 150, 0).is_some());
        assert!(short(1, 8, 7, 0).is_some());
    }

    #[test]
    fn others_are_not_to_blame_on_the_tool() {
        assert_eq!(short(10, 24_000, 1000, 0), None);
        assert!(!short(10, 24_000, 2000, 0).unwrap().is_own());
        assert!(short(10, 24_000, 13_000, 0).unwrap().is_own());
    }

    #[test]
    fn what_is_freed_counts_against_what_is_had() {
        let before = HELD.load(Ordering::Relaxed);
        let thread = std::thread::spawn(|| {
            assert_eq!(counts(9000 * QUANTUM, 0), None);
            assert_eq!(counts(-4000 * QUANTUM, 0), None);
            thread_ends();
        });
        thread.join().unwrap();
        // Other tests allocate, too, and far less.
        let more = HELD.load(Ordering::Relaxed) - before;
        assert!((4000 * QUANTUM..6000 * QUANTUM).contains(&more), "{more}");
    }
}
