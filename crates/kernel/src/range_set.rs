//! A set of addresses, kept as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Addresses, as ranges that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// The ranges' ends, by their starts.
    ends: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&other_start, &other_end)) = self.ends.range(..=end).next_back()
            && other_end >= start
        {
            (start, end) = (start.min(other_start), end.max(other_end));
            self.ends.remove(&other_start);
        }
        self.ends.insert(start, end);
    }

    /// Takes a range out.
    pub(crate) fn remove(&mut self, range: &Range<u64>) {
        while let Some((&start, &end)) = self.ends.range(..range.end).next_back()
            && end > range.start
        {
            self.ends.remove(&start);
            if range.end < end {
                self.ends.insert(range.end, end);
            }
            if start < range.start {
                self.ends.insert(start, range.start);
            }
        }
    }

    /// Whether any address of a range is in the set.
    #[must_use]
    pub(crate) fn meets(&self, range: &Range<u64>) -> bool {
        let before = self.ends.range(..range.end).next_back();
        !range.is_empty() && before.is_some_and(|(_, &end)| end > range.start)
    }

    /// Whether it has no address.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> RangeSet {
        let mut set = RangeSet::default();
        for range in ranges {
            set.insert(range.clone());
        }
        set
    }

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let cases = [
            (vec![1..3, 5..7], vec![(1, 3), (5, 7)]),
            (vec![1..3, 3..7], vec![(1, 7)]),
            (vec![3..7, 1..3], vec![(1, 7)]),
            (vec![1..3, 5..7, 2..6], vec![(1, 7)]),
            (vec![2..3, 5..7, 0..9], vec![(0, 9)]),
            (vec![0..9, 2..3, 4..4], vec![(0, 9)]),
        ];
        for (ranges, expected) in cases {
            let got: Vec<_> = set(&ranges).ends.into_iter().collect();
            assert_eq!(got, expected, "{ranges:?}");
        }
    }

    #[test]
    fn what_is_taken_out_is_met_no_more() {
        let mut some = set(&[1..5, 7..9, 20..30]);
        some.remove(&(3..22));
        assert_eq!(some, set(&[1..3, 22..30]));
        some.remove(&(24..25));
        assert_eq!(some, set(&[1..3, 22..24, 25..30]));
        assert!(some.meets(&(0..2)) && some.meets(&(2..9)) && some.meets(&(23..40)));
        assert!(!some.meets(&(3..22)) && !some.meets(&(24..25)) && !some.meets(&(1..1)));
        some.remove(&(0..99));
        assert!(some.is_empty());
    }
}
