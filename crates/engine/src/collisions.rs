//! Code beyond the branch table, at whose place behind the table other memory lies.
//!
//! A branch of near code that meets a far target for the first time reads eight times the
//! target's address behind the table's start. Mostly nothing is there, and the fault tells the
//! engine. Where the program has memory there, its word would be taken for an entry. So whatever
//! is mapped is looked at: if it is code, whether its place is taken; and if it can be read,
//! whether it takes a place. A process in which both meet goes on without a branch table.
//!
//! Owner words are never such a place: a place lies above its code, and the program gets no memory
//! at or between owner words and the table.

use std::ops::Range;

use unspool_kernel::layout::{BRANCH_TABLE, LIBRARY_END};
use unspool_kernel::regions::Regions;

use crate::flush;
use crate::process::Translations;

/// Bytes of an entry.
const ENTRY: u64 = 8;

/// A range was mapped, or protected anew: if a branch could go wrong by it, the process gives its
/// branch table up before the calling thread goes on.
pub(crate) fn notice(code: &Translations, range: Range<u64>) {
    if code.cache.has_branch_table() && exist(&code.regions, range) {
        flush::want_no_table();
    }
}

/// Whether something in a range is far code whose place can be read, or can be read and is the
/// place of far code.
fn exist(regions: &Regions, range: Range<u64>) -> bool {
    let is_taken = |place: Range<u64>| {
        let mut memory = regions.within(place);
        memory.any(|(_, region)| region.protection != libc::PROT_NONE)
    };
    let is_far_code = |range: Range<u64>| {
        let far = range.start.max(LIBRARY_END)..range.end;
        !far.is_empty() && regions.any_executable(far)
    };
    regions.within(range).any(|(here, region)| {
        let readable = region.protection != libc::PROT_NONE;
        let code = region.protection & libc::PROT_EXEC != 0 && here.start >= LIBRARY_END;
        readable && is_far_code(whose_place(&here)) || code && is_taken(place(&here))
    })
}

/// Where a branch through the table looks for the entries of these addresses.
fn place(code: &Range<u64>) -> Range<u64> {
    BRANCH_TABLE + code.start * ENTRY..BRANCH_TABLE + code.end * ENTRY
}

/// The addresses whose entries a branch looks for here.
fn whose_place(memory: &Range<u64>) -> Range<u64> {
    let index = |address: u64| address.saturating_sub(BRANCH_TABLE);
    index(memory.start) / ENTRY..index(memory.end).div_ceil(ENTRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: i32 = libc::PROT_READ | libc::PROT_WRITE;
    const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
    const PAGE: u64 = 4096;

    fn with(mapped: &[(Range<u64>, i32)]) -> Regions {
        let mut regions = Regions::default();
        for (range, protection) in mapped {
            regions.insert(range.clone(), *protection, None);
        }
        regions
    }

    #[test]
    fn far_code_and_its_place_meet_whichever_comes_last() {
        let code = 0x800_0000_0000..0x800_0000_0000 + PAGE;
        let its_place = place(&code);
        let neighbours = [
            its_place.start - PAGE..its_place.start,
            its_place.end..its_place.end + PAGE,
        ];
        for memory in [
            its_place.start..its_place.start + PAGE,
            its_place.end - PAGE..its_place.end,
            its_place.start - PAGE..its_place.end + PAGE,
        ] {
            let both = with(&[(code.clone(), CODE), (memory.clone(), DATA)]);
            assert!(exist(&both, code.clone()), "{memory:x?}");
            assert!(exist(&both, memory.clone()), "{memory:x?}");
            let reserved = with(&[(code.clone(), CODE), (memory.clone(), 0)]);
            assert!(!exist(&reserved, code.clone()));
            assert!(!exist(&reserved, memory.clone()));
            let no_code = with(&[(code.clone(), DATA), (memory.clone(), DATA)]);
            assert!(!exist(&no_code, memory));
        }
        for memory in neighbours {
            let both = with(&[(code.clone(), CODE), (memory.clone(), DATA)]);
            assert!(!exist(&both, code.clone()), "{memory:x?}");
            assert!(!exist(&both, memory.clone()), "{memory:x?}");
        }
    }

    #[test]
    fn near_code_has_its_entries_in_the_table() {
        let near = 0x2000_0000..0x2000_0000 + PAGE;
        let regions = with(&[(near.clone(), CODE), (place(&near), DATA)]);
        assert!(!exist(&regions, near.clone()));
        assert!(!exist(&regions, place(&near)));
    }
}
