//! What is known of eight bytes of memory: who accessed which of them last.
//!
//! A record stands for some of the bytes, to the byte. Most cells have one or two: whoever wrote
//! them, and whoever has read them since. Where more are needed (several readers that do not know
//! of each other, fields that several places write) the cell is split, and its records stand
//! elsewhere. That they become one again when one access covers them all is what makes bytes
//! cheap: an array of small elements needs two records only while a thread walks over it.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::clock::{Epoch, VectorClock};
use super::sites::SiteId;

/// Which bytes of a cell: bit i for byte i.
pub(super) type Bytes = u8;

/// An access to some bytes of a cell that no later one hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Record {
    pub(super) epoch: Epoch,
    /// The bytes, whether they were written, and the site.
    rest: u32,
}

impl Record {
    const NONE: Record = Record {
        epoch: Epoch::NONE,
        rest: 0,
    };
    const WRITE: u32 = 1 << 8;

    pub(super) fn new(epoch: Epoch, bytes: Bytes, is_write: bool, site: SiteId) -> Record {
        let write = if is_write { Record::WRITE } else { 0 };
        Record {
            epoch,
            rest: site.0 << 9 | write | u32::from(bytes),
        }
    }

    pub(super) fn bytes(self) -> Bytes {
        self.rest as u8
    }

    pub(super) fn is_write(self) -> bool {
        self.rest & Record::WRITE != 0
    }

    pub(super) fn site(self) -> SiteId {
        SiteId(self.rest >> 9)
    }

    /// The same of other bytes.
    pub(super) fn of_bytes(self, bytes: Bytes) -> Record {
        Record {
            epoch: self.epoch,
            rest: self.rest & !u32::from(Bytes::MAX) | u32::from(bytes),
        }
    }

    fn without(self, bytes: Bytes) -> Record {
        Record {
            epoch: self.epoch,
            rest: self.rest & !u32::from(bytes),
        }
    }

    fn with(self, bytes: Bytes) -> Record {
        Record {
            epoch: self.epoch,
            rest: self.rest | u32::from(bytes),
        }
    }

    /// What is left of it behind an access by a thread with this clock, and whether the two conflict:
    /// nothing orders them, and one of them writes.
    #[inline]
    fn behind(self, new: Record, clock: &VectorClock) -> (Record, bool) {
        if self.bytes() & new.bytes() == 0 {
            return (self, false);
        }
        let is_ordered = clock.covers(self.epoch);
        let conflicts = !is_ordered && (self.is_write() || new.is_write());
        // Whoever meets an earlier access meets this one. A read hides reads alone, and those
        // alone that came before it.
        let is_hidden = new.is_write() || (!self.is_write() && is_ordered);
        let left = match is_hidden {
            true => self.without(new.bytes()),
            false => self,
        };
        (left, conflicts)
    }

    /// Whether it is the same but for the bytes.
    fn is_like(self, other: Record) -> bool {
        self.epoch == other.epoch && self.rest >> 8 == other.rest >> 8
    }

    /// Whether nothing is learnt from another access: everybody whom that could meet meets this.
    fn stands_for(self, other: Record) -> bool {
        self.epoch == other.epoch
            && other.bytes() & !self.bytes() == 0
            && (self.is_write() || !other.is_write())
    }
}

/// The records of eight bytes, or where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cell([Record; INLINE]);

/// Some records of one cell.
pub(super) type Records = SmallVec<[Record; 6]>;

/// The records of split cells. Cells with the same records share them: where several threads read an
/// array that one of them has written, all of its cells have.
#[derive(Debug, Default)]
pub(super) struct Splits {
    all: Vec<Split>,
    free: Vec<u32>,
    numbers: FxHashMap<Records, u32>,
    /// Which one was kept last, for a few of them.
    recent: [u32; RECENT],
}

/// The records of some split cells.
#[derive(Debug)]
struct Split {
    records: Records,
    cells: u32,
}

const RECENT: usize = 32;

/// Records that a cell has room for.
const INLINE: usize = 2;

/// Marks a split cell.
const SPLIT: Epoch = Epoch::IMPOSSIBLE;

impl Cell {
    /// Whether nothing is learnt from an access. A split cell does not say.
    #[inline]
    pub(super) fn stands_for(&self, new: Record) -> bool {
        let Cell([first, second]) = *self;
        first.stands_for(new) || second.stands_for(new)
    }

    /// An access: calls `conflict` for each record of an access that it is not ordered with.
    /// `clock` is that of the thread that makes it now.
    #[inline]
    pub(super) fn access(
        &mut self,
        new: Record,
        clock: &VectorClock,
        splits: &mut Splits,
        conflict: &mut impl FnMut(Record),
    ) {
        if self.stands_for(new) {
            return;
        }
        let Cell([first, second]) = *self;
        if first.epoch == SPLIT {
            let before = splits.of(second.rest);
            if before.iter().any(|record| record.stands_for(new)) {
                return;
            }
            let mut records = Records::from_slice(before);
            records.push(Record::NONE);
            let last = records.len() - 1;
            let left = renew(&mut records, last, new, clock, conflict);
            records.truncate(left);
            *self = splits.cell_of(&records);
            splits.leave(second.rest);
            return;
        }
        let mut records = [first, second, Record::NONE];
        match renew(&mut records, INLINE, new, clock, conflict) {
            // What is behind those that are left is what was there before.
            0 | 1 => *self = Cell([records[0], Record::NONE]),
            INLINE => *self = Cell([records[0], records[1]]),
            _ => *self = splits.keep(&records),
        }
    }

    /// The same, if nothing conflicts and the cell neither is split nor must be. Otherwise nothing
    /// becomes of it, and this returns false.
    #[inline]
    pub(super) fn access_simply(&mut self, new: Record, clock: &VectorClock) -> bool {
        let Cell([first, second]) = *self;
        if first.epoch == SPLIT {
            return false;
        }
        let (first, meets_first) = first.behind(new, clock);
        let (second, meets_second) = second.behind(new, clock);
        if meets_first || meets_second {
            return false;
        }
        let records = match (first.bytes() != 0, second.bytes() != 0) {
            (true, true) if first.is_like(new) => [first.with(new.bytes()), second],
            (true, false) if first.is_like(new) => [first.with(new.bytes()), Record::NONE],
            (true, true) if second.is_like(new) => [first, second.with(new.bytes())],
            (false, true) if second.is_like(new) => [second.with(new.bytes()), Record::NONE],
            (true, true) => return false,
            (true, false) => [first, new],
            (false, true) => [second, new],
            (false, false) => [new, Record::NONE],
        };
        *self = Cell(records);
        true
    }

    /// The same for any cell, unless something conflicts: then this returns false, and nothing becomes
    /// of it.
    pub(super) fn access_in_order(
        &mut self,
        new: Record,
        clock: &VectorClock,
        splits: &mut Splits,
    ) -> bool {
        let Cell([first, second]) = *self;
        let records = match first.epoch == SPLIT {
            true => splits.of(second.rest),
            false => &[first, second],
        };
        if records.iter().any(|record| record.stands_for(new)) {
            return true;
        }
        if records.iter().any(|record| record.behind(new, clock).1) {
            return false;
        }
        self.access(new, clock, splits, &mut |_| {});
        true
    }

    /// If it is like another one was, it becomes what that has become: an access to neighbours makes the
    /// same of the same. Neither of them is split.
    #[inline]
    pub(super) fn becomes_like(&mut self, other: Option<(Cell, Cell)>) -> bool {
        let after = other.filter(|(before, _)| before == self);
        let Some((_, after)) = after else {
            return false;
        };
        *self = after;
        true
    }

    /// Whether its records stand elsewhere.
    pub(super) fn is_split(&self) -> bool {
        self.0[0].epoch == SPLIT
    }

    /// Whether its records are of all its bytes.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        let is_whole = |record: Record| matches!(record.bytes(), 0 | Bytes::MAX);
        self.0.into_iter().all(is_whole)
    }

    /// Forgets what is known of some bytes, and returns who accessed any of them.
    pub(super) fn forget(&mut self, bytes: Bytes, splits: &mut Splits) -> Records {
        let Cell([first, second]) = *self;
        let mut records = match first.epoch == SPLIT {
            true => Records::from_slice(splits.of(second.rest)),
            false => Records::from_slice(&[first, second]),
        };
        let forgotten = records.iter().filter(|record| record.bytes() & bytes != 0);
        let forgotten = forgotten.copied().collect();
        for record in &mut records {
            *record = record.without(bytes);
        }
        records.retain(|record| record.bytes() != 0);
        *self = splits.cell_of(&records);
        if first.epoch == SPLIT {
            splits.leave(second.rest);
        }
        forgotten
    }
}

/// Adds a record to the first `used` ones, in the place of those that it hides, and calls `conflict`
/// for each that it is not ordered with. There is room for one more. Returns how many there are.
#[inline]
fn renew(
    records: &mut [Record],
    used: usize,
    new: Record,
    clock: &VectorClock,
    conflict: &mut impl FnMut(Record),
) -> usize {
    let mut kept = 0;
    let mut like = None;
    for index in 0..used {
        let (left, conflicts) = records[index].behind(new, clock);
        if conflicts {
            conflict(records[index]);
        }
        if left.bytes() != 0 {
            if left.is_like(new) {
                like = Some(kept);
            }
            records[kept] = left;
            kept += 1;
        }
    }
    if let Some(like) = like {
        records[like] = records[like].with(new.bytes());
        return kept;
    }
    records[kept] = new;
    kept + 1
}

impl Splits {
    /// The records of a split cell, by what stands for them.
    fn of(&self, number: u32) -> &[Record] {
        &self.all[number as usize].records
    }

    /// A cell with these records, which is split if it has no room for them.
    fn cell_of(&mut self, records: &[Record]) -> Cell {
        match *records {
            [] => Cell::default(),
            [first] => Cell([first, Record::NONE]),
            [first, second] => Cell([first, second]),
            _ => self.keep(records),
        }
    }

    /// Keeps the records of a cell that has too many, and returns what stands for them.
    fn keep(&mut self, records: &[Record]) -> Cell {
        let place = FxBuildHasher.hash_one(records) as usize % RECENT;
        let recent = self.recent[place];
        let is_recent = |split: &Split| split.records[..] == *records;
        let number = match self.all.get(recent as usize).is_some_and(is_recent) {
            true => recent,
            false => self.find_or_add(records),
        };
        self.recent[place] = number;
        self.all[number as usize].cells += 1;
        let split = |rest| Record { epoch: SPLIT, rest };
        Cell([split(0), split(number)])
    }

    fn find_or_add(&mut self, records: &[Record]) -> u32 {
        if let Some(&number) = self.numbers.get(records) {
            return number;
        }
        let records = Records::from_slice(records);
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Split {
                records: Records::new(),
                cells: 0,
            });
            self.all.len() as u32 - 1
        });
        self.numbers.insert(records.clone(), number);
        self.all[number as usize].records = records;
        number
    }

    /// A cell has these records no longer.
    fn leave(&mut self, number: u32) {
        let split = &mut self.all[number as usize];
        split.cells -= 1;
        if split.cells == 0 {
            self.numbers.remove(&std::mem::take(&mut split.records));
            self.free.push(number);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.len() * size_of::<Split>() + self.numbers.len() * size_of::<(Records, u32)>() * 2
    }
}
