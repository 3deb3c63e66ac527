//! Words of memory by which threads synchronise, and what is known to whoever reads them.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cell::Bytes;
use super::clock::VectorClock;

/// Bytes of one cell that threads synchronise by.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) bytes: Bytes,
    /// What came before the value that is there.
    pub(super) clock: VectorClock,
}

/// All words by which threads synchronise, by the cell that holds them.
#[derive(Debug, Default)]
pub(super) struct Words {
    cells: FxHashMap<u64, SmallVec<[Part; 1]>>,
    /// Those too whose memory was given back since.
    ever: FxHashMap<u64, Bytes>,
}

impl Words {
    /// The parts of a cell that have some of these bytes.
    pub(super) fn parts(&mut self, cell: u64, bytes: Bytes) -> impl Iterator<Item = &mut Part> {
        let parts = self.cells.get_mut(&cell).into_iter().flatten();
        parts.filter(move |part| part.bytes & bytes != 0)
    }

    /// The bytes of a cell by which threads synchronise.
    pub(super) fn bytes_of(&self, cell: u64) -> Bytes {
        let parts = self.cells.get(&cell).into_iter().flatten();
        parts.fold(0, |bytes, part| bytes | part.bytes)
    }

    /// Whether threads have synchronised by one of these bytes at any time.
    pub(super) fn were_any(&self, cell: u64, bytes: Bytes) -> bool {
        self.ever.get(&cell).is_some_and(|ever| ever & bytes != 0)
    }

    /// From now on threads synchronise by these bytes, as one.
    pub(super) fn add(&mut self, cell: u64, bytes: Bytes) -> &mut Part {
        *self.ever.entry(cell).or_default() |= bytes;
        let parts = self.cells.entry(cell).or_default();
        let mut joined = Part {
            bytes,
            ..Part::default()
        };
        parts.retain(|part| {
            let meets = part.bytes & bytes != 0;
            if meets {
                joined.bytes |= part.bytes;
                joined.clock.join(&part.clock);
            }
            !meets
        });
        parts.push(joined);
        parts.last_mut().expect("one was just added")
    }

    /// The memory of these bytes is other memory now. Returns the bytes that are left.
    pub(super) fn remove(&mut self, cell: u64, bytes: Bytes) -> Bytes {
        let Some(parts) = self.cells.get_mut(&cell) else {
            return 0;
        };
        for part in parts.iter_mut() {
            part.bytes &= !bytes;
        }
        parts.retain(|part| part.bytes != 0);
        if parts.is_empty() {
            self.cells.remove(&cell);
        }
        self.bytes_of(cell)
    }

    /// Nobody knows of anything that came before.
    pub(super) fn forget_clocks(&mut self) {
        for part in self.cells.values_mut().flatten() {
            part.clock = VectorClock::default();
        }
    }

    /// How much memory they take.
    pub(super) fn bytes(&self) -> usize {
        let clocks = self.cells.values().flatten();
        let clocks: usize = clocks.map(|part| part.clock.bytes()).sum();
        self.cells.len() * size_of::<(u64, SmallVec<[Part; 1]>)>() * 2 + clocks
    }
}
