//! What became of lines when they changed hands, from which it is guessed what comes next.
//!
//! A line that one thread writes and others read is best read-shared as soon as somebody else
//! reads it. A line that each thread reads and then writes is best handed over whole. Wrong
//! guesses cost a further change of owner, nothing else, so lines share histories.
//!
//! What a thread does with a line that it has alone is not seen. One that was handed over to a reader,
//! and that its writer reads back and writes again, looks as if both wrote it. So it is shared once with
//! whoever reads it first: then who writes it tells one from the other.

use std::ops::Range;
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
/// It was shared and then written, as far as is known not by whoever reads it first: that one shares.
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

    /// What became of one of these lines became of all.
    pub(super) fn spread(&self, line: u64, lines: Range<u64>) {
        let known = self.of(line).0.load(Ordering::Relaxed);
        for other in lines {
            self.of(other).0.store(known, Ordering::Relaxed);
        }
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
        let known = self.0.load(Ordering::Relaxed);
        let is_own = known >> 8 == writer as u16 & 0xff;
        let expected = match known & 0xff {
            PUBLISHED if is_own => MIGRATES_LONG,
            _ => PUBLISHED,
        };
        self.0.store(expected, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Histories;

    /// A line that two threads use, and how often it has changed hands.
    struct Line {
        histories: Histories,
        /// None: it is shared.
        owner: Option<u32>,
        changes: u32,
    }

    const NUMBER: u64 = 5;

    impl Line {
        fn new() -> Line {
            Line {
                histories: Histories::new(),
                owner: Some(0),
                changes: 0,
            }
        }

        fn reads(&mut self, thread: u32) {
            if self.owner.is_some_and(|owner| owner != thread) {
                let shares = self.histories.of(NUMBER).taken_to_read(thread);
                self.owner = (!shares).then_some(thread);
                self.changes += 1;
            }
        }

        fn writes(&mut self, thread: u32) {
            if self.owner == Some(thread) {
                return;
            }
            let history = self.histories.of(NUMBER);
            match self.owner {
                None => history.written_while_shared(thread),
                Some(_) => history.taken_to_write(),
            }
            self.owner = Some(thread);
            self.changes += 1;
        }
    }

    const ROUNDS: u32 = 200;

    #[test]
    fn what_one_writes_and_all_read_is_shared() {
        let mut line = Line::new();
        let mut read_back = 0;
        for _ in 0..ROUNDS {
            line.writes(0);
            line.reads(1);
            let before = line.changes;
            line.reads(0);
            read_back += line.changes - before;
        }
        // Once when it is read, once when it is written; and nothing for whoever wrote it.
        assert!(line.changes <= 2 * ROUNDS + 4, "{}", line.changes);
        assert!(read_back <= 4, "{read_back}");
    }

    #[test]
    fn what_each_reads_and_writes_is_handed_over() {
        let mut line = Line::new();
        for round in 0..ROUNDS {
            line.reads(round % 2);
            line.writes(round % 2);
        }
        // The least is once a round.
        assert!(line.changes <= ROUNDS * 5 / 4, "{}", line.changes);
    }

    #[test]
    fn lines_that_are_taken_together_have_one_history() {
        let histories = Histories::new();
        let shares = |line| histories.of(line).taken_to_read(1);
        assert!(!shares(8));
        histories.spread(8, 7..10);
        assert!(shares(7) && shares(9));
        assert!(!shares(10) && !shares(6));
    }
}
