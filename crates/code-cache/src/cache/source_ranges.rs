//! Which program code each fragment was made from.

use std::ops::Range;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::table::Record;
use super::{FragmentId, NewFragment};

/// Code is looked for by blocks of 256 bytes, so that few parts lie in each.
pub(super) const BLOCK_SHIFT: u64 = 8;
const BLOCK_SIZE: u64 = 1 << BLOCK_SHIFT;
const BLOCK_WORDS: usize = (BLOCK_SIZE / 64) as usize;

/// The program code of all fragments.
#[derive(Debug, Default)]
pub(super) struct SourceRanges {
    /// The parts of code that each block holds.
    by_block: FxHashMap<u64, Block>,
    /// Where all of them lie: most memory that comes and goes is elsewhere.
    bounds: Option<Range<u64>>,
    /// The turns of fragments that do not follow the program in one part, as in a [`NewFragment`].
    turns: FxHashMap<FragmentId, Vec<(u32, u64)>>,
}

/// A part of program code of which a fragment was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(super) struct SourceRange {
    pub(super) start: u64,
    pub(super) length: u32,
    pub(super) fragment: FragmentId,
}

// SAFETY: without padding, and made of numbers.
unsafe impl Record for SourceRange {}

impl SourceRange {
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }
}

/// The parts that lie in a block, even in part.
#[derive(Debug, Default)]
struct Block {
    /// Which of its bytes lie in parts, one bit each. Most questions are about code that is not
    /// translated yet, and end here, without a look at the parts.
    covered: [u64; BLOCK_WORDS],
    parts: Vec<SourceRange>,
}

impl Block {
    fn covers(&self, pc: u64) -> bool {
        let byte = pc % BLOCK_SIZE;
        self.covered[(byte / 64) as usize] & 1 << (byte % 64) != 0
    }

    /// Adds a part. The block is the one that starts at `start`.
    fn add(&mut self, start: u64, part: SourceRange) {
        self.cover(start, part);
        self.parts.push(part);
    }

    fn cover(&mut self, start: u64, part: SourceRange) {
        for (word, first) in self.covered.iter_mut().zip((start..).step_by(64)) {
            let from = part.start.saturating_sub(first).min(64);
            let to = part.end().saturating_sub(first).min(64);
            if from < to {
                *word |= u64::MAX >> (64 - (to - from)) << from;
            }
        }
    }

    /// Forgets the parts of which this is so.
    fn forget(
        &mut self,
        start: u64,
        is_gone: impl Fn(&SourceRange) -> bool,
        gone: &mut Vec<FragmentId>,
    ) {
        let before = self.parts.len();
        self.parts.retain(|part| {
            let hit = is_gone(part);
            if hit {
                gone.push(part.fragment);
            }
            !hit
        });
        if self.parts.len() != before {
            self.covered = [0; BLOCK_WORDS];
            for part in self.parts.clone() {
                self.cover(start, part);
            }
        }
    }
}

impl SourceRanges {
    /// Adds those of a new fragment. Returns the first part's bytes and those of all.
    pub(super) fn insert(
        &mut self,
        fragment: FragmentId,
        new_fragment: &NewFragment,
    ) -> (u32, u64) {
        let parts = parts(new_fragment);
        for range in &parts {
            self.insert_piece(fragment, range.clone());
        }
        let length = |range: &Range<u64>| range.end - range.start;
        let lengths = (length(&parts[0]) as u32, parts.iter().map(length).sum());
        if !new_fragment.turns.is_empty() {
            self.turns.insert(fragment, new_fragment.turns.clone());
        }
        lengths
    }

    fn widen_bounds(&mut self, range: Range<u64>) {
        let bounds = self.bounds.get_or_insert(range.clone());
        *bounds = bounds.start.min(range.start)..bounds.end.max(range.end);
    }

    /// Adds a part of code of a fragment.
    fn insert_piece(&mut self, fragment: FragmentId, range: Range<u64>) {
        let start = range.start;
        // A fragment without instructions stands for its address.
        let end = range.end.max(start.saturating_add(1));
        self.widen_bounds(start..end);
        for block in start >> BLOCK_SHIFT..=(end - 1) >> BLOCK_SHIFT {
            let part = SourceRange {
                start,
                length: (end - start) as u32,
                fragment,
            };
            let held = self.by_block.entry(block).or_default();
            held.add(block << BLOCK_SHIFT, part);
        }
    }

    /// The fragments that translate the code at an address, or at least code around it.
    pub(super) fn fragments_at(&self, pc: u64) -> impl Iterator<Item = FragmentId> + '_ {
        let block = self.by_block.get(&(pc >> BLOCK_SHIFT));
        let parts = block.filter(|block| block.covers(pc));
        parts
            .into_iter()
            .flat_map(|block| &block.parts)
            .filter(move |part| (part.start..part.end()).contains(&pc))
            .map(|part| part.fragment)
    }

    /// The instructions of a fragment that do not follow the one before them.
    pub(super) fn turns(&self, fragment: FragmentId) -> &[(u32, u64)] {
        self.turns.get(&fragment).map_or(&[], Vec::as_slice)
    }

    /// Forgets the parts that lie in a range, which is not empty, even in part. Returns
    /// their fragments.
    pub(super) fn remove(&mut self, range: &Range<u64>) -> Vec<FragmentId> {
        let first = range.start >> BLOCK_SHIFT;
        let last = (range.end - 1) >> BLOCK_SHIFT;
        let mut found = Vec::new();
        let within = |bounds: &Range<u64>| range.start < bounds.end && bounds.start < range.end;
        if !self.bounds.as_ref().is_some_and(within) {
            return found;
        }
        let is_gone = |part: &SourceRange| part.start < range.end && range.start < part.end();
        let mut sift = |number: u64, block: &mut Block| {
            block.forget(number << BLOCK_SHIFT, is_gone, &mut found)
        };
        if last - first < self.by_block.len() as u64 {
            for block in first..=last {
                if let Some(held) = self.by_block.get_mut(&block) {
                    sift(block, held);
                }
            }
        } else {
            let blocks = self.by_block.iter_mut();
            blocks
                .filter(|(block, _)| (first..=last).contains(*block))
                .for_each(|(&number, block)| sift(number, block));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Forgets where code is. What is known of each fragment's course stays.
    pub(super) fn forget_places(&mut self) {
        self.bounds = None;
        self.by_block.clear();
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.forget_places();
        self.turns.clear();
    }
}

/// The program code of a new fragment, part by part, each once: a loop may run through it again.
fn parts(new_fragment: &NewFragment) -> SmallVec<[Range<u64>; 2]> {
    let mut turns = new_fragment.turns.iter().copied().peekable();
    let mut part = new_fragment.pc..new_fragment.pc;
    let mut parts = SmallVec::new();
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

    fn places(fragments: impl IntoIterator<Item = FragmentId>) -> Vec<usize> {
        fragments.into_iter().map(FragmentId::place).collect()
    }

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
        assert_eq!(
            source_ranges.insert(FragmentId::at(7), &new_fragment),
            (6, 9)
        );
        let at = |pc| places(source_ranges.fragments_at(pc));
        assert_eq!(at(0x1ffe), [7]);
        assert_eq!(at(0x2003), [7]);
        assert_eq!(at(0x9002), [7]);
        assert!(at(0x9003).is_empty() && at(0x1ffd).is_empty() && at(0x2004).is_empty());
        assert!(source_ranges.remove(&(0x2004..0x9000)).is_empty());
        assert_eq!(places(source_ranges.remove(&(0x2003..0x2004))), [7]);
        assert_eq!(places(source_ranges.remove(&(0..u64::MAX))), [7]);
        assert!(source_ranges.remove(&(0..u64::MAX)).is_empty());
    }

    #[test]
    fn what_is_covered_follows_the_pieces_to_the_byte() {
        let mut source_ranges = SourceRanges::default();
        let parts = [
            0x10ff..0x1101,
            0x1140..0x1180,
            0x1150..0x1308,
            0x2000..0x2000,
        ];
        for (fragment, part) in (0..).zip(&parts) {
            source_ranges.insert_piece(FragmentId::at(fragment), part.clone());
        }
        let at = |source_ranges: &SourceRanges, pc| places(source_ranges.fragments_at(pc));
        let expected = |pc: u64, from: usize| -> Vec<usize> {
            let mut all = (0..).zip(&parts);
            let holds = |part: &Range<u64>| part.start <= pc && pc < part.end.max(part.start + 1);
            let found = all
                .by_ref()
                .filter(|(fragment, part)| *fragment >= from && holds(part));
            found.map(|(fragment, _)| fragment).collect()
        };
        for pc in 0x1000..0x2100 {
            assert_eq!(at(&source_ranges, pc), expected(pc, 0), "{pc:#x}");
        }
        assert_eq!(places(source_ranges.remove(&(0x1100..0x1150))), [0, 1]);
        for pc in 0x1100..0x2100 {
            assert_eq!(at(&source_ranges, pc), expected(pc, 2), "{pc:#x}");
        }
    }
}
