//! Pages of the branch table, as they are kept.
//!
//! A file holds each page that has an entry as it is in memory, so that it can be mapped there.
//! The pages of one module stand in the file as they do in the table, with holes for those
//! without entries; where many of these follow each other they are left out, and a new **run** of
//! pages begins. Which runs there are, and where each is, follows from the target stubs.

use std::ops::Range;

use super::fragment::ModuleIndex;
use super::table::Record;
use crate::address::CacheAddress;
use crate::branch_table::{ENTRIES_PER_PAGE, PAGE};

/// Where indirect branches arrive: what the branch table holds for a program address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct TargetStub {
    /// The module of the program address.
    pub(crate) module: ModuleIndex,
    /// So that there is no padding.
    unused: u16,
    /// The program address, which lies below the code cache.
    pub pc: u32,
    /// The cache address.
    pub code: CacheAddress,
}

// SAFETY: without padding, and made of numbers.
unsafe impl Record for TargetStub {}

impl TargetStub {
    /// That of a program address below the code cache, which lies in a module.
    #[must_use]
    pub fn new(module: ModuleIndex, pc: u32, code: CacheAddress) -> TargetStub {
        TargetStub {
            module,
            unused: 0,
            pc,
            code,
        }
    }

    fn page(&self) -> u64 {
        u64::from(self.pc) / ENTRIES_PER_PAGE
    }
}

/// Pages without entries that follow each other in a run. With more there would be fewer mappings
/// to make, and larger files.
const HOLE: u64 = 128;

/// Pages of the table that stand in the file as in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) module: ModuleIndex,
    /// The pages of the table.
    pub(super) pages: Range<u64>,
    /// Where they are in the file, behind the first page of the first run.
    pub(super) offset: u64,
    /// Its target stubs, by their places among all of them.
    pub(super) target_stubs: Range<usize>,
}

/// The runs of target stubs, which are in order.
pub(super) fn runs(target_stubs: &[TargetStub]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, target_stub) in target_stubs.iter().enumerate() {
        let (module, page) = (target_stub.module, target_stub.page());
        match runs.last_mut() {
            Some(run) if run.module == module && page <= run.pages.end + HOLE => {
                run.pages.end = page + 1;
                run.target_stubs.end = number + 1;
            }
            _ => runs.push(Run {
                module,
                pages: page..page + 1,
                offset: bytes(&runs),
                target_stubs: number..number + 1,
            }),
        }
    }
    runs
}

/// Bytes of the file that runs take, holes among them.
pub(super) fn bytes(runs: &[Run]) -> u64 {
    let end = |run: &Run| run.offset + (run.pages.end - run.pages.start) * PAGE;
    runs.last().map_or(0, end)
}

/// The pages of a snapshot.
#[derive(Debug, Default)]
pub struct KeptBranches {
    target_stubs: Vec<TargetStub>,
    runs: Vec<Run>,
    miss: CacheAddress,
}

impl KeptBranches {
    /// Those of target stubs, which are in order. What has none leads to `miss`.
    pub fn new(target_stubs: Vec<TargetStub>, miss: CacheAddress) -> KeptBranches {
        KeptBranches {
            runs: runs(&target_stubs),
            target_stubs,
            miss,
        }
    }

    /// Bytes that they take in a file, holes among them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        bytes(&self.runs)
    }

    /// Bytes that they take without the holes.
    #[must_use]
    pub fn occupied(&self) -> usize {
        self.content().map(|(_, pages)| pages.len()).sum()
    }

    /// The pages, those together that follow each other: where they are behind the first one, and
    /// what they hold.
    pub fn content(&self) -> impl Iterator<Item = (u64, Vec<u8>)> + '_ {
        self.runs.iter().flat_map(move |run| {
            self.target_stubs[run.target_stubs.clone()]
                .chunk_by(|one, next| next.page() <= one.page() + 1)
                .map(move |together| {
                    let first = together[0].page();
                    let offset = run.offset + (first - run.pages.start) * PAGE;
                    (offset, self.pages(first, together))
                })
        })
    }

    fn pages(&self, first: u64, target_stubs: &[TargetStub]) -> Vec<u8> {
        let from = first * ENTRIES_PER_PAGE;
        let count = target_stubs.last().map_or(first, TargetStub::page) - first + 1;
        let mut entries = vec![self.miss.get(); (count * ENTRIES_PER_PAGE) as usize];
        for target_stub in target_stubs {
            entries[(u64::from(target_stub.pc) - from) as usize] = target_stub.code.get();
        }
        entries.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISS: u64 = 0x5000_0040;
    const PER_PAGE: u32 = ENTRIES_PER_PAGE as u32;

    fn target_stub((module, pc, code): (usize, u32, u32)) -> TargetStub {
        let code = CacheAddress::emitted(u64::from(code));
        TargetStub::new(ModuleIndex::at(module).unwrap(), pc, code)
    }

    #[test]
    fn far_pages_and_other_modules_begin_runs() {
        let (hole, far) = (HOLE as u32, (HOLE as u32 + 2) * PER_PAGE);
        let target_stubs = [
            (1, 0x1000_0000, 1),
            (1, 0x1000_0201, 2),
            (1, 0x1000_0200 + (hole + 1) * PER_PAGE, 3),
            (1, 0x1000_0200 + (hole + 1) * PER_PAGE + far, 4),
            (2, 0x1000_0000, 5),
        ]
        .map(target_stub);
        let found: Vec<_> = runs(&target_stubs)
            .into_iter()
            .map(|run| {
                (
                    run.module.place(),
                    run.pages,
                    run.offset / PAGE,
                    run.target_stubs,
                )
            })
            .collect();
        let second = 0x8_0000 + 1 + HOLE + 1 + HOLE + 2;
        assert_eq!(
            found,
            [
                (1, 0x8_0000..0x8_0000 + HOLE + 3, 0, 0..3),
                (1, second..second + 1, HOLE + 3, 3..4),
                (2, 0x8_0000..0x8_0001, HOLE + 4, 4..5),
            ]
        );
    }

    #[test]
    fn pages_hold_their_entries_and_misses() {
        let target_stubs = vec![
            (0, 0x1000_0000, 0x5000_1000),
            (0, 0x1000_0201, 0x5000_2000),
            (0, 0x1000_0a00, 0x5000_3000),
            (3, 0x1000_0a01, 0x5000_4000),
        ];
        let target_stubs: Vec<_> = target_stubs.into_iter().map(target_stub).collect();
        let kept = KeptBranches::new(target_stubs.clone(), CacheAddress::emitted(MISS));
        let content: Vec<_> = kept.content().collect();
        let places: Vec<_> = content
            .iter()
            .map(|(offset, bytes)| (offset / PAGE, bytes.len() as u64 / PAGE))
            .collect();
        assert_eq!(places, [(0, 2), (5, 1), (6, 1)]);
        assert_eq!(kept.bytes(), 7 * PAGE);
        let entry = |(part, number): (usize, u64)| {
            let bytes = &content[part].1[number as usize * 8..][..8];
            u64::from_le_bytes(bytes.try_into().unwrap())
        };
        let set = [(0, 0), (0, 513), (1, 0), (2, 1)];
        for (target_stub, place) in target_stubs.iter().zip(set) {
            assert_eq!(entry(place), target_stub.code.get());
        }
        for place in [(0, 1), (0, 512), (0, 1023), (1, 1), (2, 0)] {
            assert_eq!(entry(place), MISS, "{place:?}");
        }
    }
}
