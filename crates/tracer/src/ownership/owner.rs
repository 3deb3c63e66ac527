//! A thread as an owner of lines.

/// A thread as an owner of lines.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// By which index the owner words know it.
    pub(super) index: u32,
    /// How many moments that all threads have in common it has passed.
    pub(super) barriers: u64,
    /// The lines that it took last.
    pub(super) run: Run,
    /// Whether lines of the superblock in the making have been lost to others.
    lost: bool,
    /// Whether another thread has made it, and it has not met any yet.
    pub(super) has_just_started: bool,
}

impl Owner {
    /// Lines of the superblock in the making have been lost to others.
    pub(crate) fn note_lost(&mut self) {
        self.lost = true;
    }

    /// Whether some have, once.
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }
}

/// The most lines that are taken at once.
const LONGEST_RUN: u64 = 16;

/// The lines that a thread took last, so that it can take more at once where it walks over
/// another's memory.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) end: u64,
}

impl Run {
    /// The line and its neighbours to take at once: (count, whether downwards).
    pub(super) fn from(&self, line: u64) -> (u64, bool) {
        let longer = ((self.end - self.first) * 2).min(LONGEST_RUN);
        if line == self.end {
            (longer, false)
        } else if line + 1 == self.first {
            (longer, true)
        } else {
            (1, false)
        }
    }
}
