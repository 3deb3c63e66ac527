//! Which plain moves are atomic accesses: what is known of the source decides, and where nothing is
//! known, both answers are followed.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cell::Bytes;
use super::sites::{Origin, Site, SiteId, Sites};

/// What the source says of two accesses to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Atomicity {
    /// One of them is atomic, or the variable is.
    Atomic,
    /// One of them is known, and is not atomic.
    Plain,
    /// Nothing is known of either.
    Unknown,
}

/// Two accesses to the same bytes of a cell that nothing orders, or of which the second reads what
/// the first has stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suspect {
    pub(super) sites: [SiteId; 2],
    pub(super) cell: u64,
    pub(super) bytes: Bytes,
}

/// Bytes of memory, by their cells.
#[derive(Debug, Default)]
pub(super) struct ByteSet(FxHashMap<u64, Bytes>);

/// What threads synchronise by with plain moves alone.
#[derive(Debug, Default)]
pub(super) struct PlainWords {
    /// By what the source says.
    pub(super) atomic: ByteSet,
    /// Perhaps: nothing is known of it.
    pub(super) possible: ByteSet,
}

impl ByteSet {
    fn add(&mut self, cell: u64, bytes: Bytes) {
        *self.0.entry(cell).or_default() |= bytes;
    }

    fn remove(&mut self, cell: u64, bytes: Bytes) {
        if let Some(known) = self.0.get_mut(&cell) {
            *known &= !bytes;
        }
    }

    /// Whether one of these bytes is among them.
    pub(super) fn has_any(&self, cell: u64, bytes: Bytes) -> bool {
        self.0.get(&cell).is_some_and(|known| known & bytes != 0)
    }
}

impl Suspect {
    /// The first of the bytes.
    pub(super) fn address(&self) -> u64 {
        self.cell + u64::from(self.bytes.trailing_zeros())
    }

    /// Whether a compiler may have made these accesses of atomic ones.
    pub(super) fn may_be_atomic(&self, sites: &Sites) -> bool {
        self.sites.iter().all(|&site| {
            let Site { origin, size, .. } = sites.site(site);
            let (size, bytes) = (u64::from(size), u64::from(self.bytes.count_ones()));
            matches!(origin, Origin::Instruction(_))
                && size.is_power_of_two()
                && size <= 8
                && self.address() % size + bytes <= size
        })
    }
}

impl PlainWords {
    /// Those among what may be accesses to such words.
    pub(super) fn new(
        suspects: impl Iterator<Item = Suspect>,
        sites: &Sites,
        mut atomicity: impl FnMut([SiteId; 2], u64) -> Atomicity,
    ) -> PlainWords {
        let mut words = PlainWords::default();
        let mut plain = Vec::new();
        let mut asked = FxHashSet::default();
        for suspect in suspects {
            let Suspect {
                sites: by,
                cell,
                bytes,
            } = suspect;
            let by = by.map(|site| sites.without_calls(site));
            if !asked.insert((by[0], by[1], cell, bytes)) {
                continue;
            }
            match atomicity(by, suspect.address()) {
                Atomicity::Atomic => words.atomic.add(cell, bytes),
                Atomicity::Plain => plain.push((cell, bytes)),
                Atomicity::Unknown if suspect.may_be_atomic(sites) => {
                    words.possible.add(cell, bytes);
                }
                Atomicity::Unknown => {}
            }
        }
        // What is known of one access to a word counts for all.
        for (cell, bytes) in plain {
            words.possible.remove(cell, bytes);
        }
        words
    }
}
