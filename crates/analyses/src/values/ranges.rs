//! A set of address ranges.

use std::collections::BTreeMap;

/// Ranges that do not overlap: start to end (exclusive).
#[derive(Debug, Default)]
pub(super) struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range.
    pub(super) fn add(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        if end > address {
            self.remove(address, size);
            self.ends.insert(address, end);
        }
    }

    /// Removes a range, and cuts those that it overlaps.
    pub(super) fn remove(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        let overlapping: Vec<(u64, u64)> = self
            .ends
            .range(..end)
            .rev()
            .take_while(|(_, range_end)| **range_end > address)
            .map(|(start, range_end)| (*start, *range_end))
            .collect();
        for (start, range_end) in overlapping {
            self.ends.remove(&start);
            if start < address {
                self.ends.insert(start, address);
            }
            if range_end > end {
                self.ends.insert(end, range_end);
            }
        }
    }

    /// Whether one of them has a byte of this range.
    pub(super) fn touches(&self, address: u64, size: u64) -> bool {
        let end = address.saturating_add(size);
        self.ends
            .range(..end)
            .next_back()
            .is_some_and(|(_, range_end)| *range_end > address)
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn ranges_are_cut_where_others_are_removed() {
        let mut ranges = Ranges::default();
        ranges.add(10, 10);
        ranges.add(30, 10);
        ranges.remove(15, 20);
        let inside = |address| ranges.touches(address, 1);
        assert_eq!(
            (0..50)
                .filter(|address| inside(*address))
                .collect::<Vec<_>>(),
            [10, 11, 12, 13, 14, 35, 36, 37, 38, 39]
        );
        assert!(ranges.touches(0, 11) && !ranges.touches(0, 10) && !ranges.touches(15, 20));
        ranges.remove(12, 1);
        assert!(ranges.touches(11, 1) && !ranges.touches(12, 1) && ranges.touches(13, 1));
    }
}
