//! Words of each thread that inserted code reads by one instruction.

use unspool_code_cache::slots::slots;

use crate::numbering::Numbering;
use crate::slots::{self as tool_slots, MOST_THREAD_WORDS};

/// A word that each thread has for itself, 0 at first, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadWord(u8);

static MADE: Numbering = Numbering::new(MOST_THREAD_WORDS, "words of threads");

impl ThreadWord {
    /// A new one.
    ///
    /// # Panics
    /// If there are too many.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> ThreadWord {
        ThreadWord(MADE.next())
    }

    /// What the calling thread has there.
    #[must_use]
    #[inline]
    pub fn get(self) -> u64 {
        tool_slots::of(slots()).words[self.index()].get()
    }

    /// It is something else from now on.
    #[inline]
    pub fn set(self, value: u64) {
        tool_slots::of(slots()).words[self.index()].set(value);
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A thread begins: its words are 0.
pub(crate) fn prepare() {
    let words = &tool_slots::of(slots()).words;
    words.iter().for_each(|word| word.set(0));
}
