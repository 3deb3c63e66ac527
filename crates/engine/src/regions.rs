//! The program's address space, as the program made it: which ranges are mapped, and how.
//!
//! Kept up to date by the memory system calls. It answers what may be fetched as code,
//! where code can be put below 2 GiB, and which translations a change makes stale.

use std::collections::BTreeMap;
use std::ops::Range;

/// A mapped range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its end (exclusive); its start is its key.
    pub end: u64,
    /// PROT_READ, PROT_WRITE, PROT_EXEC as the program asked for them.
    pub protection: i32,
    /// Whether it maps a file privately, so that only this process can change it.
    pub private_file: bool,
}

/// All mapped ranges, by start, without overlaps.
#[derive(Debug, Default)]
pub struct Regions {
    by_start: BTreeMap<u64, Region>,
}

impl Regions {
    /// Adds a range, replacing what was there.
    pub fn insert(&mut self, range: Range<u64>, protection: i32, private_file: bool) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone());
        let region = Region {
            end: range.end,
            protection,
            private_file,
        };
        self.by_start.insert(range.start, region);
    }

    /// Removes a range, splitting what reaches over its ends.
    pub fn remove(&mut self, range: Range<u64>) {
        self.split_at(range.start);
        self.split_at(range.end);
        let starts: Vec<u64> = self
            .by_start
            .range(range)
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            self.by_start.remove(&start);
        }
    }

    /// Changes the protection of what is mapped in a range.
    pub fn protect(&mut self, range: Range<u64>, protection: i32) {
        self.split_at(range.start);
        self.split_at(range.end);
        for (_, region) in self.by_start.range_mut(range) {
            region.protection = protection;
        }
    }

    /// The region that holds `address`, with its start.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(u64, Region)> {
        let (&start, &region) = self.by_start.range(..=address).next_back()?;
        (address < region.end).then_some((start, region))
    }

    /// Whether anything in the range may be executed.
    #[must_use]
    pub fn any_executable(&self, range: Range<u64>) -> bool {
        let first = self
            .find(range.start)
            .map_or(range.start, |(start, _)| start);
        self.by_start
            .range(first..range.end)
            .any(|(_, region)| region.protection & libc::PROT_EXEC != 0)
    }

    /// How many bytes from `address` on may be fetched as code (0: none).
    #[must_use]
    pub fn executable_length(&self, address: u64) -> u64 {
        let mut end = address;
        while let Some((_, region)) = self.find(end) {
            if region.protection & libc::PROT_EXEC == 0 {
                break;
            }
            end = region.end;
        }
        end - address
    }

    /// The lowest free range of `size` bytes inside `area`.
    #[must_use]
    pub fn find_gap(&self, size: u64, area: Range<u64>) -> Option<u64> {
        let mut candidate = area.start;
        let first = self.find(area.start).map_or(area.start, |(start, _)| start);
        for (&start, region) in self.by_start.range(first..area.end) {
            if start >= candidate && start - candidate >= size {
                break;
            }
            candidate = candidate.max(region.end);
        }
        (candidate + size <= area.end).then_some(candidate)
    }

    fn split_at(&mut self, address: u64) {
        let Some((start, region)) = self.find(address) else {
            return;
        };
        if start != address {
            self.by_start.insert(
                start,
                Region {
                    end: address,
                    ..region
                },
            );
            self.by_start.insert(address, region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(regions: &Regions) -> Vec<(u64, u64, i32)> {
        regions
            .by_start
            .iter()
            .map(|(&start, r)| (start, r.end, r.protection))
            .collect()
    }

    #[test]
    fn inserting_over_the_middle_splits() {
        let mut regions = Regions::default();
        regions.insert(0x1000..0x5000, 1, false);
        regions.insert(0x2000..0x3000, 5, false);
        assert_eq!(
            starts(&regions),
            [
                (0x1000, 0x2000, 1),
                (0x2000, 0x3000, 5),
                (0x3000, 0x5000, 1)
            ]
        );
        regions.remove(0x1800..0x4000);
        assert_eq!(starts(&regions), [(0x1000, 0x1800, 1), (0x4000, 0x5000, 1)]);
    }

    #[test]
    fn executable_length_runs_over_adjacent_regions() {
        let mut regions = Regions::default();
        regions.insert(0x1000..0x2000, libc::PROT_EXEC, false);
        regions.insert(0x2000..0x3000, libc::PROT_EXEC | libc::PROT_READ, false);
        regions.insert(0x3000..0x4000, libc::PROT_READ, false);
        assert_eq!(regions.executable_length(0x1800), 0x1800);
        assert_eq!(regions.executable_length(0x3000), 0);
        assert!(regions.any_executable(0x2fff..0x3001));
        assert!(!regions.any_executable(0x3000..0x9000));
    }

    #[test]
    fn gaps_are_found_before_between_and_after() {
        let mut regions = Regions::default();
        regions.insert(0x2000..0x3000, 1, false);
        regions.insert(0x4000..0x5000, 1, false);
        assert_eq!(regions.find_gap(0x1000, 0x1000..0x9000), Some(0x1000));
        assert_eq!(regions.find_gap(0x1000, 0x2000..0x9000), Some(0x3000));
        assert_eq!(regions.find_gap(0x2000, 0x2000..0x9000), Some(0x5000));
        assert_eq!(regions.find_gap(0x5000, 0x2000..0x9000), None);
    }
}
