//! What is known of memory, by its addresses.

use rustc_hash::FxHashMap;

use super::past::Cell;

/// Bytes of memory in a page.
const PAGE: u64 = 4096;
const CELLS: usize = (PAGE / 8) as usize;
/// Pages that are found without asking the map.
const NEAR: usize = 1024;

/// Cells of eight bytes, where anything was done with them.
#[derive(Debug)]
pub(super) struct Table {
    cells: Vec<Cell>,
    /// For each page the number of each of its cells plus one; 0 where there is none.
    places: Vec<[u32; CELLS]>,
    numbers: FxHashMap<u64, u32>,
    /// The pages that were used last: the number of the memory's page plus one, and of ours.
    near: Box<[(u64, u32)]>,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            cells: Vec::new(),
            places: Vec::new(),
            numbers: FxHashMap::default(),
            near: vec![(0, 0); NEAR].into(),
        }
    }
}

impl Table {
    /// The cell at an address, if anything was done with it.
    #[inline]
    pub(super) fn get(&mut self, cell: u64) -> Option<&mut Cell> {
        let page = self.page(cell / PAGE)?;
        let number = self.places[page as usize][place(cell)];
        self.cells.get_mut((number as usize).checked_sub(1)?)
    }

    /// The cell at an address.
    #[inline]
    pub(super) fn get_or_add(&mut self, cell: u64) -> &mut Cell {
        let page = match self.page(cell / PAGE) {
            Some(page) => page,
            None => self.add_page(cell / PAGE),
        };
        let number = &mut self.places[page as usize][place(cell)];
        if *number == 0 {
            self.cells.push(Cell::default());
            *number = self.cells.len() as u32;
        }
        &mut self.cells[*number as usize - 1]
    }

    /// Does something with each cell of a range that is there.
    pub(super) fn for_each(&mut self, first: u64, end: u64, mut it: impl FnMut(u64, &mut Cell)) {
        let pages: Vec<(u64, u32)> = match (end - first) / PAGE > self.places.len() as u64 {
            true => self.numbers.iter().map(|it| (*it.0, *it.1)).collect(),
            false => (first / PAGE..=end / PAGE)
                .filter_map(|page| Some((page, *self.numbers.get(&page)?)))
                .collect(),
        };
        for (page, number) in pages {
            for (place, cell) in self.places[number as usize].iter().enumerate() {
                let address = page * PAGE + 8 * place as u64;
                if *cell != 0 && (first..end).contains(&address) {
                    it(address, &mut self.cells[*cell as usize - 1]);
                }
            }
        }
    }

    /// What it takes of the memory, but for what cells have elsewhere.
    pub(super) fn bytes(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.places.len() * CELLS * size_of::<u32>()
    }

    #[inline]
    fn page(&mut self, page: u64) -> Option<u32> {
        let near = &mut self.near[page as usize % NEAR];
        if near.0 == page + 1 {
            return Some(near.1);
        }
        let number = *self.numbers.get(&page)?;
        *near = (page + 1, number);
        Some(number)
    }

    fn add_page(&mut self, page: u64) -> u32 {
        let number = self.places.len() as u32;
        self.places.push([0; CELLS]);
        self.numbers.insert(page, number);
        self.near[page as usize % NEAR] = (page + 1, number);
        number
    }
}

fn place(cell: u64) -> usize {
    (cell % PAGE / 8) as usize
}
