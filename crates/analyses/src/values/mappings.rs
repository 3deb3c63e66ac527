//! Which memory an address shows: the program's own, or an object that several mappings show.
//!
//! Contents belong to memory, not to addresses: what is written through one mapping of an
//! object is read through another. So objects get addresses of their own here, which no
//! program has.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Where the objects' own addresses begin.
const FIRST_OBJECT: u64 = 1 << 63;

/// Room that each object has there; what lies further behind is not kept.
const OBJECT_BYTES_SHIFT: u32 = 44;

/// Objects that have room, below the kernel's addresses.
const MOST_OBJECTS: u64 = (1 << (63 - OBJECT_BYTES_SHIFT)) - 1;

/// A memory object: its device and its number there.
pub(super) type Identity = (u64, u64);

/// Where bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Memory that only this process's instructions and its system calls write.
    Own(u64),
    /// Memory that others may write, too: an object, or anything where the kernel writes for
    /// requests that are queued.
    Open(u64),
    /// Nobody can tell what it is.
    Foreign,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    end: u64,
    /// The object, and which byte of it comes first; none for foreign memory.
    view: Option<(u64, u64)>,
}

/// All mappings that do not simply show the program's own memory.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    by_start: BTreeMap<u64, Mapping>,
    numbers: FxHashMap<Identity, u64>,
    /// By number: whether others may write the object.
    is_open: Vec<bool>,
    /// Whether the kernel writes for requests that are queued, anywhere and at any time.
    has_queues: bool,
}

impl Mappings {
    /// From now on the kernel may write anywhere at any time.
    pub(super) fn open_everything(&mut self) {
        self.has_queues = true;
    }

    /// Where the program's own memory is kept.
    pub(super) fn plain(&self, address: u64) -> Place {
        match self.has_queues {
            true => Place::Open(address),
            false => Place::Own(address),
        }
    }

    /// A range is memory of which nothing is known.
    pub(super) fn add_foreign(&mut self, address: u64, size: u64) {
        self.add(address, size, None);
    }

    /// A range shows an object from `offset` on. Returns what is to be forgotten: the contents of
    /// an object that nothing has shown meanwhile.
    pub(super) fn add_object(
        &mut self,
        (address, size): (u64, u64),
        identity: Identity,
        offset: u64,
        own: bool,
    ) -> Option<(u64, u64)> {
        let next = self.is_open.len() as u64;
        let number = *self.numbers.entry(identity).or_insert(next);
        if number == next {
            self.is_open.push(false);
        }
        let room = 1 << OBJECT_BYTES_SHIFT;
        let fits = offset.checked_add(size).is_some_and(|end| end <= room);
        if number >= MOST_OBJECTS || !fits {
            self.add(address, size, None);
            return None;
        }
        self.is_open[number as usize] |= !own;
        let is_shown = |mapping: &Mapping| mapping.view.is_some_and(|(shown, _)| shown == number);
        let was_shown = self.by_start.values().any(is_shown);
        self.add(address, size, Some((number, offset)));
        (!was_shown).then_some((own_address(number, 0), room))
    }

    fn add(&mut self, address: u64, size: u64, view: Option<(u64, u64)>) {
        let end = address.saturating_add(size);
        if end > address {
            self.remove(address, size);
            self.by_start.insert(address, Mapping { end, view });
        }
    }

    /// A range is the program's own memory, or none: mappings that it overlaps are cut.
    pub(super) fn remove(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        let overlapping: Vec<(u64, Mapping)> = self
            .by_start
            .range(..end)
            .rev()
            .take_while(|(_, mapping)| mapping.end > address)
            .map(|(start, mapping)| (*start, *mapping))
            .collect();
        for (start, mapping) in overlapping {
            self.by_start.remove(&start);
            if start < address {
                let before = Mapping {
                    end: address,
                    ..mapping
                };
                self.by_start.insert(start, before);
            }
            if mapping.end > end {
                let view = mapping
                    .view
                    .map(|(object, offset)| (object, offset + (end - start)));
                let behind = Mapping {
                    end: mapping.end,
                    view,
                };
                self.by_start.insert(end, behind);
            }
        }
    }

    /// Another process has all objects from now on that are mapped here.
    pub(super) fn open_all(&mut self) {
        self.is_open.fill(true);
    }

    /// Whether all of a range is the program's own memory.
    pub(super) fn is_plain(&self, address: u64, size: u64) -> bool {
        let end = address.saturating_add(size);
        let last = self.by_start.range(..end).next_back();
        last.is_none_or(|(_, mapping)| mapping.end <= address)
    }

    /// Where the first bytes of a range are kept, and how many they are.
    pub(super) fn locate(&self, address: u64, size: u64) -> (Place, u64) {
        let before = self.by_start.range(..=address).next_back();
        if let Some((start, mapping)) = before
            && mapping.end > address
        {
            let place = mapping.view.map_or(Place::Foreign, |(object, offset)| {
                let kept = own_address(object, offset + (address - start));
                match self.has_queues || self.is_open[object as usize] {
                    true => Place::Open(kept),
                    false => Place::Own(kept),
                }
            });
            return (place, size.min(mapping.end - address));
        }
        let next = self.by_start.range(address..).next();
        let until = next.map_or(u64::MAX, |(start, _)| *start);
        (self.plain(address), size.min(until - address).max(1))
    }

    /// The places where the bytes of a range are kept, with the size of each.
    pub(super) fn places(&self, address: u64, size: u64) -> Vec<(Place, u64)> {
        let mut places = Vec::new();
        let mut done = 0;
        while done < size {
            let (place, bytes) = self.locate(address.wrapping_add(done), size - done);
            places.push((place, bytes));
            done += bytes;
        }
        places
    }
}

fn own_address(object: u64, offset: u64) -> u64 {
    FIRST_OBJECT | object << OBJECT_BYTES_SHIFT | offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_an_object_are_one_place() {
        let mut mappings = Mappings::default();
        assert!(
            mappings
                .add_object((0x1000, 0x2000), (1, 5), 0, true)
                .is_some()
        );
        assert_eq!(
            mappings.add_object((0x8000, 0x1000), (1, 5), 0x1000, true),
            None
        );
        mappings.add_object((0x9000, 0x1000), (1, 6), 0x1000, true);
        let at = |address| mappings.locate(address, 4).0;
        assert_eq!(at(0x2010), at(0x8010));
        assert_ne!(at(0x2010), at(0x9010));
        assert_eq!(at(0x3000), Place::Own(0x3000));
        assert_eq!(mappings.locate(0xffe, 8), (Place::Own(0xffe), 2));
        assert_eq!(mappings.places(0xffe, 8)[1], (at(0x1000), 6));
        mappings.open_all();
        let open = mappings.locate(0x8010, 4).0;
        assert!(matches!(open, Place::Open(_)), "{open:?}");
    }

    #[test]
    fn mappings_are_cut_where_others_are_removed() {
        let mut mappings = Mappings::default();
        mappings.add_foreign(10, 10);
        mappings.add_object((30, 10), (1, 1), 100, true);
        let last = mappings.locate(39, 1);
        mappings.remove(15, 20);
        let plain = |address| mappings.is_plain(address, 1);
        assert_eq!(
            (0..50)
                .filter(|address| !plain(*address))
                .collect::<Vec<_>>(),
            [10, 11, 12, 13, 14, 35, 36, 37, 38, 39]
        );
        assert_eq!(mappings.locate(39, 1), last, "it still shows the same byte");
        assert!(mappings.is_plain(0, 10) && !mappings.is_plain(0, 11));
        assert_eq!(mappings.locate(12, 9), (Place::Foreign, 3));
        assert_eq!(
            mappings.locate(u64::MAX - 1, 8),
            (Place::Own(u64::MAX - 1), 1)
        );
    }

    #[test]
    fn an_object_that_nothing_shows_any_more_may_have_changed() {
        let mut mappings = Mappings::default();
        mappings.add_object((0x1000, 0x1000), (1, 5), 0, true);
        mappings.remove(0x1000, 0x1000);
        let forgotten = mappings.add_object((0x4000, 0x1000), (1, 5), 0, true);
        assert!(
            forgotten
                .is_some_and(|(address, _)| mappings.locate(0x4000, 1).0 == Place::Own(address))
        );
    }
}
