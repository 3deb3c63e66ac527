//! Which program code each fragment was made from.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::NewFragment;
use super::table::Record;

/// Code is looked for by blocks of 256 bytes, so that few parts lie in each.
const BLOCK_SHIFT: u64 = 8;

/// The program code of all fragments.
#[derive(Debug, Default)]
pub(super) struct SourceRanges {
    /// The parts of code that each block holds.
    by_block: FxHashMap<u64, Vec<SourceRange>>,
    /// The parts that were kept, of each module that is active.
    kept: Vec<KeptRanges>,
    /// Where all of them lie: most memory that comes and goes is elsewhere.
    bounds: Option<Range<u64>>,
    /// The turns of fragments that do not follow the program in one part, as in a [`NewFragment`].
    turns: FxHashMap<u32, Vec<(u32, u64)>>,
}

/// A part of program code of which a fragment was made.
#[derive(Debug, Clone, Copy)]
struct SourceRange {
    start: u64,
    end: u64,
    fragment: u32,
}

/// A part of which a kept fragment was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(super) struct KeptRange {
    pub(super) start: u64,
    pub(super) length: u32,
    pub(super) fragment: u32,
}

// SAFETY: without padding, and made of numbers.
unsafe impl Record for KeptRange {}

/// Those of a module.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptRanges {
    /// By their starts.
    pub(super) parts: &'static [KeptRange],
    /// Bytes that the longest one has at most.
    pub(super) longest: u64,
}

impl KeptRanges {
    /// The fragments of those that lie in a range, even in part.
    fn within(&self, range: Range<u64>) -> impl Iterator<Item = u32> + use<> {
        let from = range.start.saturating_sub(self.longest);
        let first = self.parts.partition_point(|part| part.start < from);
        let parts = self.parts[first..].iter();
        parts
            .take_while(move |part| part.start < range.end)
            .filter(move |part| part.start + u64::from(part.length) > range.start)
            .map(|part| part.fragment)
    }
}

impl SourceRanges {
    /// Adds those of a new fragment. Returns the first part's bytes and those of all.
    pub(super) fn insert(&mut self, fragment: u32, new_fragment: &NewFragment) -> (u32, u64) {
        let parts = parts(new_fragment);
        for range in &parts {
            self.insert_piece(fragment, range.clone());
        }
        let length = |range: &Range<u64>| range.end - range.start;
        let lengths = (
            length(&parts[0]) as u32,
            parts.iter().map(length).sum::<u64>(),
        );
        if !new_fragment.turns.is_empty() {
            self.turns.insert(fragment, new_fragment.turns.clone());
        }
        lengths
    }

    /// Adds those of a module, whose fragments stay listed when they are removed.
    pub(super) fn insert_kept(&mut self, kept: KeptRanges) {
        let (Some(first), Some(last)) = (kept.parts.first(), kept.parts.last()) else {
            return;
        };
        self.widen_bounds(first.start..last.start + kept.longest.max(1));
        self.kept.push(kept);
    }

    fn widen_bounds(&mut self, range: Range<u64>) {
        let bounds = self.bounds.get_or_insert(range.clone());
        *bounds = bounds.start.min(range.start)..bounds.end.max(range.end);
    }

    /// Adds a part of code of a fragment.
    fn insert_piece(&mut self, fragment: u32, range: Range<u64>) {
        let start = range.start;
        // A fragment without instructions stands for its address.
        let end = range.end.max(start + 1);
        self.widen_bounds(start..end);
        for block in start >> BLOCK_SHIFT..=(end - 1) >> BLOCK_SHIFT {
            let part = SourceRange {
                start,
                end,
                fragment,
            };
            self.by_block.entry(block).or_default().push(part);
        }
    }

    /// The fragments that translate the code at an address, or at least code around it.
    pub(super) fn fragments_at(&self, pc: u64) -> impl Iterator<Item = u32> + '_ {
        let parts = self.by_block.get(&(pc >> BLOCK_SHIFT));
        parts
            .into_iter()
            .flatten()
            .filter(move |part| (part.start..part.end).contains(&pc))
            .map(|part| part.fragment)
            .chain(
                self.kept
                    .iter()
                    .flat_map(move |kept| kept.within(pc..pc + 1)),
            )
    }

    /// The instructions of a fragment that do not follow the one before them.
    pub(super) fn turns(&self, fragment: u32) -> &[(u32, u64)] {
        self.turns.get(&fragment).map_or(&[], Vec::as_slice)
    }

    /// Forgets the parts that lie in a range, which is not empty, even in part. Returns
    /// their fragments, and those of kept parts however often this is called.
    pub(super) fn remove(&mut self, range: &Range<u64>) -> Vec<u32> {
        let first = range.start >> BLOCK_SHIFT;
        let last = (range.end - 1) >> BLOCK_SHIFT;
        let mut found = Vec::new();
        let within = |bounds: &Range<u64>| range.start < bounds.end && bounds.start < range.end;
        if !self.bounds.as_ref().is_some_and(within) {
            return found;
        }
        found.extend(self.kept.iter().flat_map(|kept| kept.within(range.clone())));
        let mut sift = |parts: &mut Vec<SourceRange>| {
            parts.retain(|part| {
                let hit = part.start < range.end && range.start < part.end;
                if hit {
                    found.push(part.fragment);
                }
                !hit
            });
        };
        if last - first < self.by_block.len() as u64 {
            for block in first..=last {
                if let Some(parts) = self.by_block.get_mut(&block) {
                    sift(parts);
                }
            }
        } else {
            let blocks = self.by_block.iter_mut();
            blocks
                .filter(|(block, _)| (first..=last).contains(*block))
                .for_each(|(_, parts)| sift(parts));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Forgets where code is. What is known of each fragment's course stays.
    pub(super) fn forget_places(&mut self) {
        self.bounds = None;
        self.by_block.clear();
        self.kept.clear();
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.forget_places();
        self.turns.clear();
    }
}

/// The program code of a new fragment, part by part, each once: a loop may run through it again.
fn parts(new_fragment: &NewFragment) -> Vec<Range<u64>> {
    let mut turns = new_fragment.turns.iter().copied().peekable();
    let mut part = new_fragment.pc..new_fragment.pc;
    let mut parts = Vec::new();
    let mut add = |part: Range<u64>| {
        if !parts.contains(&part) {
            parts.push(part);
        }
    };
    for (number, &(bytes, _)) in (0..).zip(&new_fragment.pc_map) {
        if let Some((_, to)) = turns.next_if(|&(turning, _)| turning == number) {
            add(std::mem::replace(&mut part, to..to));
        }
        part.end += u64::from(bytes);
    }
    add(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_found_by_each_of_its_pieces() {
        let mut source_ranges = SourceRanges::default();
        let new_fragment = NewFragment {
            pc: 0x1ffe,
            pc_map: vec![(4, 1), (2, 1), (3, 1), (3, 1)],
            // A jump to 0x9000, where a loop of one instruction is run twice.
            turns: vec![(2, 0x9000), (3, 0x9000)],
            ..NewFragment::default()
        };
        assert_eq!(source_ranges.insert(7, &new_fragment), (6, 9));
        let at = |pc| source_ranges.fragments_at(pc).collect::<Vec<_>>();
        assert_eq!(at(0x1ffe), [7]);
        assert_eq!(at(0x2003), [7]);
        assert_eq!(at(0x9002), [7]);
        assert!(at(0x9003).is_empty());
        assert!(source_ranges.remove(&(0x2004..0x9000)).is_empty());
        assert_eq!(source_ranges.remove(&(0x2003..0x2004)), [7]);
        assert_eq!(source_ranges.remove(&(0..u64::MAX)), [7]);
        assert!(source_ranges.remove(&(0..u64::MAX)).is_empty());
    }

    #[test]
    fn kept_pieces_are_found_by_each_of_their_bytes() {
        let part = |start, length, fragment| KeptRange {
            start,
            length,
            fragment,
        };
        let parts = vec![part(0x1000, 40, 5), part(0x1008, 4, 2), part(0x1030, 1, 9)];
        let mut source_ranges = SourceRanges::default();
        source_ranges.insert_kept(KeptRanges {
            parts: parts.leak(),
            longest: 40,
        });
        let at = |pc| source_ranges.fragments_at(pc).collect::<Vec<_>>();
        assert_eq!(at(0x0fff), []);
        assert_eq!(at(0x1000), [5]);
        assert_eq!(at(0x1008), [5, 2]);
        assert_eq!(at(0x100c), [5]);
        assert_eq!(at(0x1027), [5]);
        assert_eq!(at(0x1028), []);
        assert_eq!(at(0x1030), [9]);
        assert_eq!(source_ranges.remove(&(0x1027..0x1031)), [5, 9]);
        assert_eq!(source_ranges.remove(&(0x100b..0x100c)), [2, 5]);
        assert!(source_ranges.remove(&(0x1028..0x1030)).is_empty());
        source_ranges.forget_places();
        assert!(source_ranges.remove(&(0..u64::MAX)).is_empty());
    }
}
