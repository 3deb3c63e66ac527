//! Where a thread stands in the file, for others to see.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_code_cache::slots::Slots;

use crate::sleep::Sleep;
use crate::slots as trace_slots;

/// Where a thread stands.
#[derive(Debug)]
pub(crate) struct ThreadProgress {
    /// Whether it has left its trace to others.
    pub(crate) sleep: Sleep,
    /// The time up to which the file has its records.
    shown: AtomicU64,
    /// A time that it is asked to show; 0 for none.
    floor: AtomicU64,
    /// The slot by which it is asked.
    poll: &'static AtomicU64,
}

impl ThreadProgress {
    /// A thread's that has shown nothing yet.
    pub(crate) fn new(slots: &'static Slots) -> ThreadProgress {
        ThreadProgress {
            sleep: Sleep::default(),
            shown: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            poll: &trace_slots::of(slots).poll,
        }
    }

    /// The time up to which the file has its records.
    pub(crate) fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// The file has its records up to a time.
    pub(crate) fn set_shown(&self, time: u64) {
        self.shown.store(time, Ordering::Relaxed);
    }

    /// Asks the thread, whose slots stay for as long, to show a time at which nothing earlier can
    /// follow. This may be lost where it is answering somebody just now.
    pub(crate) fn ask_to_show(&self, floor: u64) {
        self.floor.fetch_max(floor, Ordering::AcqRel);
        trace_slots::ask_to_show(self.poll);
    }

    /// The time that the thread is asked to show, once.
    pub(crate) fn take_floor(&self) -> Option<u64> {
        if self.floor.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.floor.swap(0, Ordering::AcqRel)).filter(|&floor| floor != 0)
    }
}
