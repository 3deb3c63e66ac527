//! What was kept of modules that are active, found by the program's address.
//!
//! Each instruction that is translated asks several times what is known of an address, and the
//! tables of a large program have many pages. So an index says for each block of program code
//! where its parts and entries begin: an answer takes one look there, and mostly it is that there
//! are none.

use std::ops::Range;

use super::source_ranges::SourceRange;
use super::table::Record;

/// As large as the blocks of code that this process translates.
const BLOCK_SHIFT: u64 = super::source_ranges::BLOCK_SHIFT;

/// What belongs to a block of a module's code. A module has one more of these than blocks, in which
/// both numbers are the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct KeptBlock {
    /// The first part that does not end before the block.
    pub(super) part: u32,
    /// The first entry that does not lie before the block.
    pub(super) entry: u32,
}

// SAFETY: without padding, and made of numbers.
unsafe impl Record for KeptBlock {}

/// The index of a module: the number of its first block, and its blocks. Parts and the addresses
/// of entries are given in order, with the places of the first ones in their tables.
pub(super) fn index(
    (first_part, parts): (u32, &[SourceRange]),
    (first_entry, entries): (u32, &[u64]),
) -> (u64, Vec<KeptBlock>) {
    let starts = [
        parts.first().map(|part| part.start),
        entries.first().copied(),
    ];
    let ends = [
        parts.iter().map(SourceRange::end).max(),
        entries.last().map(|pc| pc + 1),
    ];
    let (Some(start), Some(end)) = (
        starts.into_iter().flatten().min(),
        ends.into_iter().flatten().max(),
    ) else {
        return (0, Vec::new());
    };
    let blocks = start >> BLOCK_SHIFT..((end - 1) >> BLOCK_SHIFT) + 1;
    let (mut part, mut entry) = (0, 0);
    let at_block = |block: u64| {
        let start = block << BLOCK_SHIFT;
        let before = |part: &SourceRange| part.end() <= start;
        part += parts[part..].iter().take_while(|part| before(part)).count();
        entry += entries[entry..]
            .iter()
            .take_while(|&&pc| pc < start)
            .count();
        KeptBlock {
            part: first_part + part as u32,
            entry: first_entry + entry as u32,
        }
    };
    let index = (blocks.start..=blocks.end).map(at_block).collect();
    (blocks.start, index)
}

/// A module that is active.
#[derive(Debug, Clone)]
struct Module {
    blocks: Range<u64>,
    index: &'static [KeptBlock],
    /// Where this module and all before it end.
    all_end: u64,
}

/// The modules that are active.
#[derive(Debug, Default)]
pub(super) struct ActiveModules {
    /// By their starts. They may overlap: where one was, the program may have mapped another.
    modules: Vec<Module>,
}

impl ActiveModules {
    /// Adds a module.
    pub(super) fn insert(&mut self, first_block: u64, index: &'static [KeptBlock]) {
        let Some(count) = index.len().checked_sub(1) else {
            return;
        };
        let place = self.first_behind(first_block);
        let module = Module {
            blocks: first_block..first_block + count as u64,
            index,
            all_end: 0,
        };
        self.modules.insert(place, module);
        let mut end = 0;
        for module in &mut self.modules {
            end = module.blocks.end.max(end);
            module.all_end = end;
        }
    }

    /// The first module that starts behind a block.
    fn first_behind(&self, block: u64) -> usize {
        self.modules
            .partition_point(|module| module.blocks.start <= block)
    }

    /// The modules that have some of these blocks.
    fn overlapping(&self, blocks: Range<u64>) -> impl Iterator<Item = &Module> {
        let candidates = &self.modules[..self.first_behind(blocks.end - 1)];
        let reaches = move |module: &&Module| blocks.start < module.all_end;
        let ends_before = move |module: &&Module| module.blocks.end <= blocks.start;
        candidates
            .iter()
            .rev()
            .take_while(reaches)
            .filter(move |module| !ends_before(module))
    }

    /// The places of parts some of which lie in a range, which is not empty, even in part.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Range<usize>> {
        let blocks = range.start >> BLOCK_SHIFT..((range.end - 1) >> BLOCK_SHIFT) + 1;
        self.overlapping(blocks.clone()).filter_map(move |module| {
            let end = module.index.last()?.part;
            let first = blocks.start.saturating_sub(module.blocks.start);
            let start = module.index[first as usize].part;
            Some(start as usize..end as usize)
        })
    }

    /// The places of entries, in the order of their addresses, among which is each for an address.
    pub(super) fn entries(&self, pc: u64) -> impl Iterator<Item = Range<usize>> {
        let block = pc >> BLOCK_SHIFT;
        self.overlapping(block..block + 1).map(move |module| {
            let place = (block - module.blocks.start) as usize;
            let [this, next] = [0, 1].map(|behind| module.index[place + behind].entry as usize);
            this..next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::FragmentId;
    use super::*;

    fn part((start, length): (u64, u32)) -> SourceRange {
        SourceRange {
            start,
            length,
            fragment: FragmentId::at(0),
        }
    }

    fn contains((start, length): (u64, u32), pc: u64) -> bool {
        (start..start + u64::from(length)).contains(&pc)
    }

    /// The place of the first part and entry of a module, its parts, and its entries.
    type Example = (u32, &'static [(u64, u32)], &'static [u64]);

    fn active(modules: &[Example]) -> ActiveModules {
        let mut active = ActiveModules::default();
        for &(first, parts, entries) in modules {
            let parts: Vec<_> = parts.iter().copied().map(part).collect();
            let (block, index) = index((first, &parts), (first, entries));
            active.insert(block, index.leak());
        }
        active
    }

    #[test]
    fn a_block_names_its_first_part_and_entry() {
        let parts = [(0x1010, 0x220), (0x1020, 4), (0x1240, 0x10), (0x1600, 1)];
        let entries = [0x1010, 0x1020, 0x1240, 0x1248, 0x1600];
        let (first, blocks) = index((10, &parts.map(part)), (100, &entries));
        let found: Vec<_> = blocks.iter().map(|one| (one.part, one.entry)).collect();
        assert_eq!(first, 0x10);
        let [none, last, end] = [(13, 104), (13, 104), (14, 105)];
        assert_eq!(
            found,
            [(10, 100), (10, 102), (10, 102), none, none, none, last, end]
        );
    }

    #[test]
    fn a_module_without_anything_has_no_block() {
        let active = active(&[(0, &[], &[])]);
        assert_eq!(active.parts(0..u64::MAX).count(), 0);
    }

    /// Whatever overlaps, as a look at each of them finds it.
    #[test]
    fn all_that_overlap_are_found() {
        let modules: [Example; 4] = [
            (
                0,
                &[(0x10000, 0x5000), (0x17000, 0x20)],
                &[0x10000, 0x17004],
            ),
            (20, &[(0x12000, 0x10)], &[0x12000]),
            (40, &[(0x11000, 0x10), (0x13000, 0x10)], &[0x11000, 0x13008]),
            (60, &[(0x30000, 0x10)], &[0x30000]),
        ];
        let active = active(&modules);
        for pc in (0xff00..0x30200).step_by(4) {
            let mut found: Vec<u32> = Vec::new();
            let mut entries: Vec<u64> = Vec::new();
            for &(first, parts, all) in &modules {
                let places = |range: Range<usize>| range.map(|place| place as u32);
                for place in active.parts(pc..pc + 1).flat_map(places) {
                    let own = place
                        .checked_sub(first)
                        .and_then(|at| parts.get(at as usize));
                    found.extend(own.filter(|one| contains(**one, pc)).map(|_| place));
                }
                for place in active.entries(pc).flatten() {
                    let own = place.checked_sub(first as usize).and_then(|at| all.get(at));
                    entries.extend(own.filter(|one| **one == pc));
                }
            }
            let all_parts = modules.iter().flat_map(|(_, parts, _)| parts.iter());
            let expected = all_parts.filter(|one| contains(**one, pc)).count();
            assert_eq!(found.len(), expected, "{pc:#x}");
            let all_entries = modules.iter().flat_map(|(_, _, entries)| entries.iter());
            assert_eq!(
                entries.len(),
                all_entries.filter(|entry| **entry == pc).count(),
                "{pc:#x}"
            );
        }
    }
}
