//! Shadow memory: a cell for each eight bytes of the program's memory, where any were accessed.

use rustc_hash::FxHashMap;

use super::cell::{Bytes, Cell, Splits};

/// Bytes of memory in a page.
pub(super) const PAGE: u64 = 4096;
const CELLS: usize = (PAGE / 8) as usize;
/// Bytes of an access whose cells are looked at together.
pub(super) const FEW: u64 = 64;
/// Pages that are found without asking the map.
const NEAR: usize = 2048;

/// What is known of 4096 bytes.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) cells: [Cell; CELLS],
    /// Which cells have bytes by which threads synchronise.
    synchronising: [u64; CELLS / 64],
}

/// All pages.
#[derive(Debug)]
pub(super) struct Shadow {
    pages: Vec<Box<Page>>,
    numbers: FxHashMap<u64, u32>,
    free: Vec<u32>,
    /// The pages that were used last: the number of the memory's page plus one, and of ours.
    near: Box<[(u64, u32); NEAR]>,
    pub(super) splits: Splits,
}

impl Default for Shadow {
    fn default() -> Shadow {
        Shadow {
            pages: Vec::new(),
            numbers: FxHashMap::default(),
            free: Vec::new(),
            near: Box::new([(0, 0); NEAR]),
            splits: Splits::default(),
        }
    }
}

/// The part of a range in one cell: the cell's first address, and which of its bytes.
pub(super) fn parts(address: u64, size: u64) -> impl Iterator<Item = (u64, Bytes)> {
    let end = address.saturating_add(size);
    let first = address & !7;
    (0..end.saturating_sub(first).div_ceil(8)).map(move |number| {
        let cell = first + 8 * number;
        let low = address.saturating_sub(cell);
        let high = (end - cell).min(8);
        (cell, ((1_u16 << high) - (1_u16 << low)) as Bytes)
    })
}

impl Page {
    fn new() -> Page {
        Page {
            cells: [Cell::default(); CELLS],
            synchronising: [0; CELLS / 64],
        }
    }

    /// Whether threads synchronise by bytes of the cell at this address.
    #[inline]
    pub(super) fn is_synchronising(&self, address: u64) -> bool {
        let cell = Page::cell(address);
        self.synchronising[cell / 64] & 1 << (cell % 64) != 0
    }

    /// Whether the page that holds an address holds a range of a few bytes from there on.
    #[inline]
    pub(super) fn holds(address: u64, size: u64) -> bool {
        size <= FEW && address % PAGE + size <= PAGE
    }

    /// Whether threads synchronise by bytes of the cells of a range that the page holds.
    #[inline]
    pub(super) fn has_synchronising(&self, address: u64, size: u64) -> bool {
        let last = address + size.saturating_sub(1);
        let (first, last) = (Page::cell(address), Page::cell(last));
        let words = &self.synchronising[first / 64..=last / 64];
        let from = u64::MAX << (first % 64);
        let to = u64::MAX >> (63 - last % 64);
        match words {
            [word] => word & from & to != 0,
            [first, between @ .., last] => {
                first & from != 0 || last & to != 0 || between.iter().any(|word| *word != 0)
            }
            [] => false,
        }
    }

    pub(super) fn set_synchronising(&mut self, address: u64, value: bool) {
        let cell = Page::cell(address);
        let bit = 1 << (cell % 64);
        match value {
            true => self.synchronising[cell / 64] |= bit,
            false => self.synchronising[cell / 64] &= !bit,
        }
    }

    /// The number of the cell that holds an address.
    pub(super) fn cell(address: u64) -> usize {
        (address % PAGE / 8) as usize
    }
}

impl Shadow {
    /// The page that holds an address, and the records of split cells.
    #[inline]
    pub(super) fn page(&mut self, address: u64) -> (&mut Page, &mut Splits) {
        let number = address / PAGE;
        let near = self.near[number as usize % NEAR];
        let index = match near.0 == number + 1 {
            true => near.1,
            false => self.find_or_make(number),
        };
        (&mut self.pages[index as usize], &mut self.splits)
    }

    /// The page that holds an address, if it is among those that were used last.
    #[inline]
    pub(super) fn near_page(&self, address: u64) -> Option<&Page> {
        let number = address / PAGE;
        let (near, index) = self.near[number as usize % NEAR];
        (near == number + 1).then(|| &*self.pages[index as usize])
    }

    #[cold]
    fn find_or_make(&mut self, number: u64) -> u32 {
        let index = *self.numbers.entry(number).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.pages.push(Box::new(Page::new()));
                self.pages.len() as u32 - 1
            })
        });
        self.near[number as usize % NEAR] = (number + 1, index);
        index
    }

    /// Forgets who accessed a range. Calls `was_synchronising` for the cells that threads
    /// synchronised by, with the bytes.
    pub(super) fn forget(
        &mut self,
        address: u64,
        size: u64,
        mut forget_words: impl FnMut(u64, Bytes) -> bool,
    ) {
        let end = address.saturating_add(size);
        let (first, last) = (address / PAGE, end.div_ceil(PAGE));
        let touched: Vec<u64> = match last - first <= self.numbers.len() as u64 {
            true => (first..last)
                .filter(|number| self.numbers.contains_key(number))
                .collect(),
            false => {
                let numbers = self.numbers.keys().copied();
                numbers
                    .filter(|number| (first..last).contains(number))
                    .collect()
            }
        };
        for number in touched {
            let from = address.max(number * PAGE);
            let to = end.min(number * PAGE + PAGE);
            let index = self.numbers[&number];
            let page = &mut self.pages[index as usize];
            for (cell, bytes) in parts(from, to - from) {
                if page.is_synchronising(cell) {
                    page.set_synchronising(cell, forget_words(cell, bytes));
                }
                page.cells[Page::cell(cell)].forget(bytes, &mut self.splits);
            }
            if to - from == PAGE {
                self.numbers.remove(&number);
                self.near[number as usize % NEAR] = (0, 0);
                *page.as_mut() = Page::new();
                self.free.push(index);
            }
        }
    }

    /// Forgets who accessed anything, but not by what threads synchronise.
    pub(super) fn forget_all(&mut self) {
        let mut old = std::mem::take(self);
        for (number, index) in old.numbers {
            let synchronising = old.pages[index as usize].synchronising;
            if synchronising == [0; CELLS / 64] {
                continue;
            }
            let mut page = std::mem::replace(&mut old.pages[index as usize], Box::new(Page::new()));
            page.cells = [Cell::default(); CELLS];
            self.numbers.insert(number, self.pages.len() as u32);
            self.pages.push(page);
        }
    }

    /// How much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.pages.len() * size_of::<Page>() + self.splits.bytes()
    }
}
