//! Who holds locks: a count, and a way to wait until there is nobody and to let nobody begin.
//!
//! This is a reader-writer lock with a count for each of several groups of threads (a "big-reader
//! lock"), so that threads of different groups do not share a cache line. Readers are the threads
//! that hold any lock; the writer is a fork. Each count has a bit of its own that says that
//! nobody may begin: counting oneself and seeing that bit are one step.

#[cfg(test)]
mod tests;

/// What the algorithm needs of a word.
pub(super) trait Word {
    fn load(&self) -> u32;
    /// Makes it zero, while nobody else is there.
    fn reset(&self);
    /// Returns what was there before, as do the next two.
    fn add(&self, value: u32) -> u32;
    fn subtract(&self, value: u32) -> u32;
    fn set(&self, bits: u32) -> u32;
    fn clear(&self, bits: u32);
    /// Waits to be woken if the word holds `value`. It may return early.
    fn wait(&self, value: u32);
    fn wake_all(&self);
}

/// Nobody may begin.
const CLOSED: u32 = 1 << 31;

/// The count of one group, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Group<W>(pub(super) W);

/// All groups.
#[derive(Debug)]
pub(super) struct Holders<W, const GROUPS: usize>(pub(super) [Group<W>; GROUPS]);

impl<W: Word> Group<W> {
    /// A thread takes its first lock. False: it may not now.
    #[inline]
    fn try_begin(&self) -> bool {
        if self.0.add(1) & CLOSED == 0 {
            return true;
        }
        self.end();
        false
    }

    /// A thread gives its last lock back.
    #[inline]
    fn end(&self) {
        if self.0.subtract(1) == CLOSED | 1 {
            self.0.wake_all();
        }
    }

    /// Waits while `waits` says so of the word.
    fn wait_while(&self, waits: impl Fn(u32) -> bool) {
        loop {
            let word = self.0.load();
            if !waits(word) {
                return;
            }
            self.0.wait(word);
        }
    }
}

impl<W: Word, const GROUPS: usize> Holders<W, GROUPS> {
    /// A thread of this group takes its first lock. It waits while holders are excluded.
    #[inline]
    pub(super) fn begin(&self, group: usize) {
        if !self.0[group].try_begin() {
            self.begin_later(group);
        }
    }

    #[cold]
    fn begin_later(&self, group: usize) {
        let group = &self.0[group];
        loop {
            group.wait_while(|word| word & CLOSED != 0);
            if group.try_begin() {
                return;
            }
        }
    }

    /// The same without waiting: false if holders are excluded.
    pub(super) fn try_begin(&self, group: usize) -> bool {
        self.0[group].try_begin()
    }

    /// A thread of this group gives its last lock back.
    #[inline]
    pub(super) fn end(&self, group: usize) {
        self.0[group].end();
    }

    /// Waits until there is no holder, and lets nobody begin from then on. The caller is none. Of
    /// several callers one goes on, and the others wait for its [`Holders::admit`].
    pub(super) fn exclude(&self) {
        let [first, rest @ ..] = &self.0[..] else {
            return;
        };
        while first.0.set(CLOSED) & CLOSED != 0 {
            first.wait_while(|word| word & CLOSED != 0);
        }
        for group in rest {
            group.0.set(CLOSED);
        }
        for group in &self.0 {
            group.wait_while(|word| word != CLOSED);
        }
    }

    /// Undoes [`Holders::exclude`].
    pub(super) fn admit(&self) {
        // The first is the one by which callers of `exclude` exclude each other.
        for group in self.0.iter().rev() {
            group.0.clear(CLOSED);
            group.0.wake_all();
        }
    }

    /// The same in a copy of the process, where nobody else is: threads that were just finding out
    /// that they may not begin are still counted.
    pub(super) fn reset(&self) {
        for group in &self.0 {
            group.0.reset();
        }
    }
}
