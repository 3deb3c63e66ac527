//! A thread as an owner of lines.

use std::ops::Range;

/// A thread as an owner of lines.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// By which index the owner words know it.
    pub(super) index: u32,
    /// How many moments that all threads have in common it has passed.
    pub(super) barriers: u64,
    /// The lines that it took last.
    pub(super) runs: Runs,
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
const LONGEST_RUN: u64 = 64;
/// Over how many pieces of memory a thread may walk at a time.
const RUNS: usize = 4;

/// The lines that a thread took last, so that it can take more at once where it walks over
/// another's memory.
#[derive(Debug, Default)]
pub(super) struct Runs {
    all: [Run; RUNS],
    /// The one that has not been gone on with for longest, roughly.
    oldest: usize,
}

/// Lines that were taken at once.
#[derive(Debug, Default, Clone, Copy)]
struct Run {
    first: u64,
    end: u64,
}

/// How a line goes on with what was taken before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Which run it goes on with, or takes the place of.
    run: usize,
    /// How many lines to take at once, itself included.
    pub(super) count: u64,
    pub(super) downwards: bool,
}

impl Runs {
    /// How to take a line.
    pub(super) fn step(&self, line: u64) -> Step {
        let goes_on = |run: &Run| run.end == line || run.first == line + 1;
        let Some(run) = self.all.iter().position(goes_on) else {
            return Step {
                run: self.oldest,
                count: 1,
                downwards: false,
            };
        };
        let Run { first, end } = self.all[run];
        Step {
            run,
            count: ((end - first) * 2).min(LONGEST_RUN),
            downwards: end != line,
        }
    }

    /// It was taken in that step, with its neighbours.
    pub(super) fn take(&mut self, step: Step, lines: Range<u64>) {
        if step.run == self.oldest {
            self.oldest = (step.run + 1) % RUNS;
        }
        self.all[step.run] = Run {
            first: lines.start,
            end: lines.end,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_RUN, Runs};

    /// How many lines are taken at once where a thread walks over pieces of memory, by turns, each line once.
    fn takes(pieces: &[u64], downwards: bool) -> Vec<usize> {
        let mut runs = Runs::default();
        let mut taken = vec![0; pieces.len()];
        let mut left = vec![0; pieces.len()];
        for number in 0..1000 {
            for (piece, &start) in pieces.iter().enumerate() {
                if left[piece] != 0 {
                    left[piece] -= 1;
                    continue;
                }
                let line = match downwards {
                    true => start - number,
                    false => start + number,
                };
                let step = runs.step(line);
                assert!(step.count == 1 || step.downwards == downwards);
                let lines = match downwards {
                    true => line + 1 - step.count..line + 1,
                    false => line..line + step.count,
                };
                runs.take(step, lines);
                taken[piece] += 1;
                left[piece] = step.count - 1;
            }
        }
        taken
    }

    #[test]
    fn whoever_walks_over_several_pieces_takes_more_and_more() {
        let least = 1000 / LONGEST_RUN as usize;
        for downwards in [false, true] {
            for pieces in [&[5000][..], &[5000, 9000, 20000, 40000]] {
                let taken = takes(pieces, downwards);
                assert!(taken.iter().all(|&it| it <= least + 8), "{taken:?}");
            }
        }
    }

    #[test]
    fn nothing_beside_a_line_is_taken_where_none_follows() {
        let mut runs = Runs::default();
        for number in 1..100 {
            let step = runs.step(number * 50);
            assert_eq!(step.count, 1);
            runs.take(step, number * 50..number * 50 + 1);
        }
    }
}
