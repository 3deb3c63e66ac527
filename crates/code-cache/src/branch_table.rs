//! The branch table: for each program address below the code cache, where indirect branches
//! to it go on.
//!
//! A page of the table is filled with the miss gate when its first entry is set. Pages that were
//! never filled are not accessible, so that the program's wild pointers fault there as they would
//! without the table, or read as 0 where their neighbours were needed: a jump through them faults,
//! and the fault leads to the miss gate too.

use std::ops::Range;

use unspool_kernel::layout::{self, BRANCH_TABLE, LIBRARY_END};

use crate::address::CacheAddress;

/// Bytes of a page of the table.
pub(crate) const PAGE: u64 = 4096;
/// Entries that it has.
pub(crate) const ENTRIES_PER_PAGE: u64 = 512;
/// Pages that become accessible together, so that the kernel has few different ranges to know:
/// those of 128 KiB of code.
const PAGES_PER_AREA: u64 = 256;
/// Pages that are noted together.
const PAGES_PER_BITMAP: u64 = 4096;

/// One bit for each of some neighbouring pages.
type Bitmap = [u64; PAGES_PER_BITMAP as usize / 64];

/// The branch table of the process. Emitted code reads it while it changes.
pub(crate) struct BranchTable {
    miss: CacheAddress,
    mapped: bool,
    /// Whether each page is filled, where a page near it is. (Most never are, and memory that
    /// says so for each would be cleared in each process.)
    filled: Vec<Option<Box<Bitmap>>>,
    /// Whether each area of pages is accessible.
    accessible: Vec<bool>,
}

impl BranchTable {
    /// A table without entries. Where it is `mapped`, [`unspool_kernel::layout::reserve_branch_table`]
    /// must have been called; otherwise it stays without.
    #[must_use]
    pub(crate) fn new(miss: CacheAddress, mapped: bool) -> BranchTable {
        let pages = LIBRARY_END / ENTRIES_PER_PAGE;
        BranchTable {
            miss,
            mapped,
            filled: vec![None; pages.div_ceil(PAGES_PER_BITMAP) as usize],
            accessible: vec![false; pages.div_ceil(PAGES_PER_AREA) as usize],
        }
    }

    /// Whether there is an entry for `pc`.
    #[must_use]
    pub(crate) fn covers(&self, pc: u64) -> bool {
        self.mapped && pc < LIBRARY_END
    }

    /// Sets where branches to `pc` go. Addresses beyond the table have no entry.
    pub(crate) fn set(&mut self, pc: u64, code: CacheAddress) {
        if !self.covers(pc) {
            return;
        }
        let page = pc / ENTRIES_PER_PAGE;
        if !self.is_filled(page) {
            if !self.make_accessible(&(page..page + 1)) {
                // There is no memory for it: branches to this address leave the cache each time.
                return;
            }
            self.note_filled(page);
            self.fill(page);
        }
        write(pc, code);
    }

    fn note_filled(&mut self, page: u64) {
        let bitmap = &mut self.filled[(page / PAGES_PER_BITMAP) as usize];
        let bitmap = bitmap.get_or_insert_with(|| Box::new([0; PAGES_PER_BITMAP as usize / 64]));
        bitmap[word_of(page)] |= 1 << (page % 64);
    }

    /// Where branches go for which nothing is set.
    #[must_use]
    pub(crate) fn miss(&self) -> CacheAddress {
        self.miss
    }

    /// Takes over whole pages that are mapped at another place, with entries for these addresses.
    /// False: it cannot be done, because something is set on one of the pages, or the kernel
    /// refuses.
    pub(crate) fn adopt(
        &mut self,
        pages: &Range<u64>,
        from: u64,
        addresses: impl Iterator<Item = u64>,
    ) -> bool {
        let fits = self.covers(pages.end * ENTRIES_PER_PAGE - 1);
        if !fits || pages.clone().any(|page| self.is_filled(page)) {
            return false;
        }
        let size = (pages.end - pages.start) * PAGE;
        let to = BRANCH_TABLE + pages.start * PAGE;
        // SAFETY: nothing is set on these pages of the table, so nothing relies on what they
        // hold; the caller leaves the other place to the table.
        let moved = unsafe { layout::move_memory(from, size, to) }.is_ok();
        if moved {
            addresses.for_each(|pc| self.note_filled(pc / ENTRIES_PER_PAGE));
        }
        moved
    }

    /// Makes pages accessible, with their neighbours. False: the kernel refuses.
    fn make_accessible(&mut self, pages: &Range<u64>) -> bool {
        let areas = pages.start / PAGES_PER_AREA..pages.end.div_ceil(PAGES_PER_AREA);
        let known = &mut self.accessible[areas.start as usize..areas.end as usize];
        if known.iter().all(|&accessible| accessible) {
            return true;
        }
        const AREA: u64 = PAGES_PER_AREA * PAGE;
        let start = BRANCH_TABLE + areas.start * AREA;
        let done = layout::open(start, (areas.end - areas.start) * AREA).is_ok();
        if done {
            known.fill(true);
        }
        done
    }

    /// Prepares for entries at these addresses, in ascending order, to be set: the kernel is
    /// asked for neighbouring pages at once.
    pub(crate) fn prepare(&mut self, addresses: impl Iterator<Item = u64>) {
        let mut run = 0..0;
        for pc in addresses {
            let page = pc / ENTRIES_PER_PAGE;
            if page >= run.end && self.covers(pc) && !self.is_filled(page) {
                if page != run.end {
                    self.populate(&run);
                    run.start = page;
                }
                run.end = page + 1;
            }
        }
        self.populate(&run);
    }

    /// Has memory put behind pages of the table, unless they are too few to be worth it.
    fn populate(&mut self, pages: &Range<u64>) {
        if pages.end - pages.start > 1 && self.make_accessible(pages) {
            layout::populate(BRANCH_TABLE + pages.start * PAGE..BRANCH_TABLE + pages.end * PAGE);
        }
    }

    /// There are no entries any more, and nothing reads them.
    pub(crate) fn give_up(&mut self) {
        self.mapped = false;
        self.filled.fill(None);
    }

    fn fill(&self, page: u64) {
        for pc in page * ENTRIES_PER_PAGE..(page + 1) * ENTRIES_PER_PAGE {
            write(pc, self.miss);
        }
    }

    fn filled_pages(&self) -> impl Iterator<Item = u64> + '_ {
        let known = (0..)
            .zip(&self.filled)
            .filter(|(_, bitmap)| bitmap.is_some());
        known
            .flat_map(|(number, _)| number * PAGES_PER_BITMAP..(number + 1) * PAGES_PER_BITMAP)
            .filter(|&page| self.is_filled(page))
    }

    fn is_filled(&self, page: u64) -> bool {
        let bitmap = &self.filled[(page / PAGES_PER_BITMAP) as usize];
        bitmap
            .as_ref()
            .is_some_and(|bitmap| bitmap[word_of(page)] & 1 << (page % 64) != 0)
    }

    /// Where branches to `pc` go; the miss gate if nothing is set.
    #[must_use]
    pub(crate) fn get(&self, pc: u64) -> CacheAddress {
        if !self.covers(pc) || !self.is_filled(pc / ENTRIES_PER_PAGE) {
            return self.miss;
        }
        // SAFETY: the table is mapped and has an entry for each address below LIBRARY_END.
        let code = unsafe { std::ptr::read_volatile((BRANCH_TABLE + pc * 8) as *const u64) };
        CacheAddress::emitted(code)
    }

    /// Whether nothing is set for `pc`, though it could be.
    #[must_use]
    pub(crate) fn is_empty_at(&self, pc: u64) -> bool {
        self.covers(pc) && self.get(pc) == self.miss
    }

    /// All that is set: program addresses, and where branches to them go.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, CacheAddress)> + '_ {
        self.filled_pages()
            .flat_map(|page| page * ENTRIES_PER_PAGE..(page + 1) * ENTRIES_PER_PAGE)
            .map(|pc| (pc, self.get(pc)))
            .filter(|&(_, code)| code != self.miss)
    }

    /// Makes branches to `pc` leave the cache.
    pub(crate) fn clear(&mut self, pc: u64) {
        if self.get(pc) != self.miss {
            self.set(pc, self.miss);
        }
    }

    /// Makes all branches leave the cache, from now on through another miss gate.
    pub(crate) fn clear_all(&mut self, miss: CacheAddress) {
        self.miss = miss;
        for page in self.filled_pages() {
            self.fill(page);
        }
    }
}

/// Which word of a bitmap has the bit of a page.
fn word_of(page: u64) -> usize {
    (page % PAGES_PER_BITMAP / 64) as usize
}

fn write(pc: u64, code: CacheAddress) {
    // SAFETY: the table is mapped and has an entry for each address below LIBRARY_END.
    unsafe { std::ptr::write_volatile((BRANCH_TABLE + pc * 8) as *mut u64, code.get()) };
}
