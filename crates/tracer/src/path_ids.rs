//! The ids of paths, which are given out anew when the code cache has been emptied.

use std::sync::atomic::{AtomicU32, Ordering};

use unspool_events::PathId;

/// More paths than a superblock can have.
const MOST_PATHS: u32 = 1024;

/// Which ids are free. Changes under the lock of the cache.
#[derive(Debug)]
pub(crate) struct PathIds {
    /// How many there are.
    count: u32,
    next: AtomicU32,
    /// How often they have begun anew since the start of the file.
    generation: AtomicU32,
}

impl PathIds {
    /// So many are free.
    pub(crate) fn new(count: u32) -> PathIds {
        PathIds {
            count,
            next: AtomicU32::new(0),
            generation: AtomicU32::new(0),
        }
    }

    /// The one that the next superblock's first path has.
    pub(crate) fn next(&self) -> PathId {
        PathId(self.next.load(Ordering::Relaxed))
    }

    /// Whether there may be too few for another superblock.
    pub(crate) fn are_short(&self) -> bool {
        self.next.load(Ordering::Relaxed) > self.count.saturating_sub(MOST_PATHS)
    }

    /// The next ones belong to a superblock.
    pub(crate) fn take(&self, paths: usize) {
        self.next.fetch_add(paths as u32, Ordering::Relaxed);
    }

    /// Whether so many are taken that they should begin anew where that costs little.
    pub(crate) fn are_many_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) > self.count / 2
    }

    /// All are free again.
    pub(crate) fn begin_generation(&self) {
        self.next.store(0, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// The generation that those are of which are given out now.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::SeqCst)
    }

    /// In a file of its own: none was given out.
    pub(crate) fn forget(&self) {
        self.next.store(0, Ordering::Relaxed);
        self.generation.store(0, Ordering::SeqCst);
    }
}
