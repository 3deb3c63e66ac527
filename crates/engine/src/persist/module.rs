//! The pieces of files that kept translations were made of.

use std::ops::Range;

use unspool_kernel::regions::{Object, Region, Version, View};

/// A piece of a file that is mapped as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Module {
    start: u64,
    end: u64,
    object: Object,
    version: Version,
    offset: u64,
}

impl Module {
    /// The numbers that make one.
    pub(super) const NUMBERS: usize = 10;

    pub(super) fn new(start: u64, region: &Region, view: View, version: Version) -> Module {
        Module {
            start,
            end: region.end,
            object: view.object,
            version,
            offset: view.offset,
        }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn contains(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.end
    }

    /// Whether the file had its content well before a moment, in seconds: what is written within
    /// one tick of the clock of a file system cannot be told apart by its time.
    pub(super) fn is_older_than(&self, moment: i64) -> bool {
        /// The coarsest clock of a file system.
        const TICK: i64 = 2;
        self.version.changed.0.saturating_add(TICK) < moment
    }

    pub(super) fn numbers(&self) -> [u64; Module::NUMBERS] {
        let [modified, changed] = [self.version.modified, self.version.changed];
        [
            self.start,
            self.end,
            self.object.device,
            self.object.inode,
            self.version.size,
            modified.0 as u64,
            modified.1 as u64,
            changed.0 as u64,
            changed.1 as u64,
            self.offset,
        ]
    }

    pub(super) fn from_numbers(numbers: [u64; Module::NUMBERS]) -> Module {
        let [start, end, device, inode, size, ..] = numbers;
        let time = |at: usize| (numbers[at] as i64, numbers[at + 1] as i64);
        Module {
            start,
            end,
            object: Object { device, inode },
            version: Version {
                size,
                modified: time(5),
                changed: time(7),
            },
            offset: numbers[9],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_make_the_same_module() {
        let numbers = std::array::from_fn(|number| number as u64 + 1);
        assert_eq!(Module::from_numbers(numbers).numbers(), numbers);
    }

    #[test]
    fn young_files_are_not_trusted() {
        let mut numbers = [0; Module::NUMBERS];
        numbers[7] = 1000;
        let module = Module::from_numbers(numbers);
        for (moment, old) in [(999, false), (1002, false), (1003, true)] {
            assert_eq!(module.is_older_than(moment), old, "{moment}");
        }
    }
}
