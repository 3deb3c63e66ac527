//! What became of lines when they changed hands, from which it is guessed what comes next.
//!
//! A line that one thread writes and others read is best read-shared as soon as somebody else
//! reads it. A line that each thread reads and then writes is best handed over whole. Wrong
//! guesses cost a further change of owner, nothing else, so lines share histories.

use std::sync::atomic::{AtomicU16, Ordering};

/// Histories: a power of two.
const COUNT: usize = 1 << 16;

/// The histories of all lines.
#[derive(Debug)]
pub(super) struct Histories(Box<[AtomicU16]>);

/// The history of a line: in the low byte what is expected, in the high byte who shared it.
#[derive(Debug, Clone, Copy)]
pub(super) struct History<'a>(&'a AtomicU16);

/// Nothing is known.
const UNKNOWN: u16 = 0;
/// The last change of owner was for a read: the next one who reads shares.
const READ: u16 = 1;
/// After being shared it was written by another thread than the one that shared it.
const PUBLISHED: u16 = 2;
/// From here on: who reads it also writes it. Counts down to [`UNKNOWN`], because that may change.
const MIGRATES: u16 = 3;
const MIGRATES_LONG: u16 = 18;

impl Histories {
    pub(super) fn new() -> Histories {
        Histories((0..COUNT).map(|_| AtomicU16::new(UNKNOWN)).collect())
    }

    pub(super) fn of(&self, line: u64) -> History<'_> {
        History(&self.0[line as usize % COUNT])
    }
}

impl History<'_> {
    /// Another thread's line is taken for a read by `reader`: whether to share it.
    pub(super) fn taken_to_read(self, reader: u32) -> bool {
        let expected = self.0.load(Ordering::Relaxed) & 0xff;
        match expected {
            UNKNOWN => self.0.store(READ, Ordering::Relaxed),
            READ | PUBLISHED => {
                let shared_by = (reader as u16) << 8;
                self.0.store(expected | shared_by, Ordering::Relaxed);
                return true;
            }
            MIGRATES => self.0.store(UNKNOWN, Ordering::Relaxed),
            _ => self.0.store(expected - 1, Ordering::Relaxed),
        }
        false
    }

    /// Another thread's line is taken for a write.
    pub(super) fn taken_to_write(self) {
        if self.0.load(Ordering::Relaxed) & 0xff < MIGRATES {
            self.0.store(UNKNOWN, Ordering::Relaxed);
        }
    }

    /// A shared line is taken for a write.
    pub(super) fn written_while_shared(self, writer: u32) {
        let sharer = self.0.load(Ordering::Relaxed) >> 8;
        let expected = if sharer == writer as u16 & 0xff {
            MIGRATES_LONG
        } else {
            PUBLISHED
        };
        self.0.store(expected, Ordering::Relaxed);
    }
}
