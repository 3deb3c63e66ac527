//! What is known of eight bytes of memory: who accessed which of them last.
//!
//! A record stands for some of the bytes, to the byte. Most cells have one or two: whoever wrote
//! them, and whoever has read them since. Where more are needed (several readers that do not know
//! of each other, fields that several places write) the cell is split, and its records stand
//! elsewhere. That they become one again when one access covers them all is what makes bytes
//! cheap: an array of small elements needs two records only while a thread walks over it.

use smallvec::SmallVec;

use super::clock::{Epoch, VectorClock};
use super::sites::SiteId;

/// Which bytes of a cell: bit i for byte i.
pub(super) type Bytes = u8;

/// An access to some bytes of a cell that no later one hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

    fn without(self, bytes: Bytes) -> Record {
        Record {
            epoch: self.epoch,
            rest: self.rest & !u32::from(bytes),
        }
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
pub(super) struct Cell([Record; 2]);

/// More records than a cell has room for.
pub(super) type Records = SmallVec<[Record; 4]>;

/// The records of split cells.
#[derive(Debug, Default)]
pub(super) struct Splits {
    all: Vec<Records>,
    free: Vec<u32>,
}

/// Marks a split cell.
const SPLIT: Epoch = Epoch::IMPOSSIBLE;

impl Cell {
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
        let Cell([first, second]) = *self;
        if first.stands_for(new) || second.stands_for(new) {
            return;
        }
        let is_covered = clock.covers(first.epoch) && clock.covers(second.epoch);
        if first.epoch != SPLIT && is_covered && !first.is_like(new) && !second.is_like(new) {
            let hidden = (first.bytes() | second.bytes()) & !new.bytes() == 0;
            if new.is_write() && hidden {
                *self = Cell([new, Record::NONE]);
                return;
            }
            let reads_hidden = !second.is_write() && second.bytes() & !new.bytes() == 0;
            if !new.is_write() && first.is_write() && reads_hidden {
                *self = Cell([first, new]);
                return;
            }
        }
        self.access_slowly(new, clock, splits, conflict);
    }

    fn access_slowly(
        &mut self,
        new: Record,
        clock: &VectorClock,
        splits: &mut Splits,
        conflict: &mut impl FnMut(Record),
    ) {
        let mut records = self.take(splits);
        if !records.iter().any(|record| record.stands_for(new)) {
            for &record in &records {
                let meets = record.bytes() & new.bytes() != 0;
                if meets && (record.is_write() || new.is_write()) && !clock.covers(record.epoch) {
                    conflict(record);
                }
            }
            add(&mut records, new, clock);
        }
        self.put(records, splits);
    }

    /// Forgets what is known of some bytes, and returns who wrote any of them.
    pub(super) fn forget(&mut self, bytes: Bytes, splits: &mut Splits) -> Records {
        let mut records = self.take(splits);
        let forgotten = records.iter().filter(|record| record.bytes() & bytes != 0);
        let forgotten = forgotten.copied().collect();
        for record in &mut records {
            *record = record.without(bytes);
        }
        records.retain(|record| record.bytes() != 0);
        self.put(records, splits);
        forgotten
    }

    fn take(&mut self, splits: &mut Splits) -> Records {
        let Cell([first, second]) = std::mem::take(self);
        if first.epoch == SPLIT {
            return splits.take(second.rest);
        }
        let records = [first, second].into_iter();
        records.filter(|record| record.bytes() != 0).collect()
    }

    fn put(&mut self, records: Records, splits: &mut Splits) {
        *self = match records[..] {
            [] => Cell::default(),
            [first] => Cell([first, Record::NONE]),
            [first, second] => Cell([first, second]),
            _ => {
                let rest = splits.keep(records);
                let split = |rest| Record { epoch: SPLIT, rest };
                Cell([split(0), split(rest)])
            }
        };
    }
}

/// Adds a record, in the place of those that it hides.
fn add(records: &mut Records, new: Record, clock: &VectorClock) {
    for record in records.iter_mut() {
        // Whoever meets an earlier access meets this one. A read hides reads alone, and those
        // alone that came before it.
        let hides = match new.is_write() {
            true => true,
            false => !record.is_write() && clock.covers(record.epoch),
        };
        if hides {
            *record = record.without(new.bytes());
        }
    }
    records.retain(|record| record.bytes() != 0);
    match records.iter_mut().find(|record| record.is_like(new)) {
        Some(like) => like.rest |= u32::from(new.bytes()),
        None => records.push(new),
    }
}

impl Splits {
    fn take(&mut self, number: u32) -> Records {
        self.free.push(number);
        std::mem::take(&mut self.all[number as usize])
    }

    fn keep(&mut self, records: Records) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(Records::new());
            self.all.len() as u32 - 1
        });
        self.all[number as usize] = records;
        number
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.len() * size_of::<Records>()
    }
}
