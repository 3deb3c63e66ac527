//! The links between fragments: what leads out of one, and where others can be entered.

use std::mem::offset_of;

use super::table::{Record, Table};
use super::{Cache, ModuleIndex};
use crate::address::CacheAddress;
use crate::binding::RegisterBinding;
use crate::exit::{ExitIndex, ExitKind, Reason, Way};

/// Where an entry stands in the table of all entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct EntryIndex(u32);

impl EntryIndex {
    /// That of the entry at a place of the table.
    pub(super) fn at(place: usize) -> EntryIndex {
        EntryIndex(place as u32)
    }

    /// Its place in the table.
    pub(super) fn place(self) -> usize {
        self.0 as usize
    }
}

/// A program address at which translated code can be entered.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct LinkedEntry {
    /// The program address.
    pub pc: u64,
    /// The code, to be entered with all program state in place.
    pub cache: CacheAddress,
    /// The code to be entered with the trace registers loaded (see [`RegisterBinding`]);
    /// nowhere if none.
    pub(crate) bound: CacheAddress,
    /// The first linked exit.
    incoming: Option<ExitIndex>,
    /// Which trace registers `bound` expects.
    pub binding: RegisterBinding,
    /// So that there is no padding.
    unused: u16,
}

// SAFETY: without padding, and made of numbers.
unsafe impl Record for LinkedEntry {}

/// An exit of a fragment.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Exit {
    /// The program address to go on at.
    pub target: u64,
    /// The 32-bit field of its jump; nowhere if it cannot be linked.
    pub(crate) field: CacheAddress,
    /// Where `field` points while not linked: code that leaves. For a call into the engine,
    /// where the thread goes on afterwards.
    pub stub: CacheAddress,
    /// The second of the numbers of its kind.
    kind_detail: u32,
    /// The next exit linked to the same entry.
    next_incoming: Option<ExitIndex>,
    /// Which trace registers are spilled, here and where the engine finds the thread.
    pub binding: RegisterBinding,
    /// The first of the numbers of its kind.
    kind_number: u8,
    /// Whether it is linked to an entry.
    linked: bool,
    /// So that there is no padding.
    unused: u32,
}

// SAFETY: without padding.
unsafe impl Record for Exit {
    fn is_allowed(bytes: &[u8]) -> bool {
        let (_, detail) = bytes.split_at(offset_of!(Exit, kind_detail));
        let detail = detail.first_chunk().map(|&bytes| u32::from_le_bytes(bytes));
        let number = bytes[offset_of!(Exit, kind_number)];
        let kind = detail.and_then(|detail| ExitKind::from_numbers((number, detail)));
        kind.is_some() && bytes[offset_of!(Exit, linked)] <= 1
    }
}

const _: () = assert!(size_of::<Exit>() == 32 && size_of::<LinkedEntry>() == 24);

impl Exit {
    /// What it is for.
    ///
    /// # Panics
    /// Never: it was made with a kind, or its numbers were looked at where it was taken over.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> ExitKind {
        let numbers = (self.kind_number, self.kind_detail);
        ExitKind::from_numbers(numbers).expect("an exit has the numbers of a kind")
    }

    /// Whether it is linked to an entry.
    pub(super) fn is_linked(&self) -> bool {
        self.linked
    }

    /// The same, linked to none.
    pub(super) fn without_link(self) -> Exit {
        Exit {
            linked: false,
            next_incoming: None,
            ..self
        }
    }

    /// An exit that is a single patchable jump, with this field.
    #[must_use]
    pub fn by_jump(kind: ExitKind, target: u64, field: CacheAddress) -> Exit {
        Exit {
            field,
            ..Exit::new(kind, target)
        }
    }

    /// An exit that is never linked.
    #[must_use]
    pub fn new(kind: ExitKind, target: u64) -> Exit {
        let (kind_number, kind_detail) = kind.numbers();
        Exit {
            target,
            kind_number,
            field: CacheAddress::NOWHERE,
            stub: CacheAddress::NOWHERE,
            binding: RegisterBinding::default(),
            kind_detail,
            linked: false,
            next_incoming: None,
            unused: 0,
        }
    }
}

/// All entries and exits, and which of them are joined.
#[derive(Default)]
pub(super) struct Links {
    pub(super) entries: Table<LinkedEntry>,
    pub(super) exits: Table<Exit>,
}

impl Links {
    /// Adds an entry. Returns its index.
    pub(super) fn push_entry(
        &mut self,
        pc: u64,
        cache: CacheAddress,
        bound: CacheAddress,
        binding: RegisterBinding,
    ) -> EntryIndex {
        let index = EntryIndex::at(self.entries.len());
        self.entries.push(LinkedEntry {
            pc,
            cache,
            bound,
            incoming: None,
            binding,
            unused: 0,
        });
        index
    }

    /// Notes that an exit leads to an entry. An exit leads to one at most: several threads may
    /// have left by it before it was linked, and each of them wants it to be.
    pub(super) fn join(&mut self, exit_index: ExitIndex, entry: EntryIndex) {
        let exit = &mut self.exits[exit_index.place()];
        if !exit.linked {
            let entry = &mut self.entries[entry.place()];
            exit.linked = true;
            exit.next_incoming = entry.incoming.replace(exit_index);
        }
    }

    /// The exits that lead to an entry, by their indices.
    pub(super) fn incoming(&self, entry: EntryIndex) -> impl Iterator<Item = ExitIndex> + '_ {
        let first = self.entries[entry.place()].incoming;
        std::iter::successors(first, |exit| self.exits[exit.place()].next_incoming)
    }

    /// What is kept of these entries, given by module, program address and index, and of all
    /// exits, of which those lead to an entry that belong to its module.
    pub(super) fn to_keep(
        &self,
        entries: &[(ModuleIndex, u64, EntryIndex)],
        module_at: impl Fn(CacheAddress) -> ModuleIndex,
    ) -> (Vec<LinkedEntry>, Vec<Exit>) {
        let mut exits: Vec<Exit> = self.exits.iter().map(|exit| exit.without_link()).collect();
        let mut entry = |&(module, _, index): &(ModuleIndex, u64, EntryIndex)| {
            let mut kept = LinkedEntry {
                incoming: None,
                ..self.entries[index.place()]
            };
            for exit_index in self.incoming(index) {
                let exit = &mut exits[exit_index.place()];
                if module_at(exit.field) == module {
                    exit.linked = true;
                    exit.next_incoming = kept.incoming.replace(exit_index);
                }
            }
            kept
        };
        let entries = entries.iter().map(&mut entry).collect();
        (entries, exits)
    }

    /// Whether all links lead somewhere.
    pub(super) fn are_whole(&self) -> bool {
        let is_there =
            |exit: Option<ExitIndex>| exit.is_none_or(|exit| exit.place() < self.exits.len());
        let entries = self.entries.iter().all(|entry| is_there(entry.incoming));
        let exits = self.exits.iter().all(|exit| is_there(exit.next_incoming));
        entries && exits
    }

    /// Parts an entry from all exits that lead to it, and returns these.
    fn part(&mut self, entry: EntryIndex) -> Vec<Exit> {
        let parted: Vec<ExitIndex> = self.incoming(entry).collect();
        self.entries[entry.place()].incoming = None;
        let free = |index: &ExitIndex| {
            let exit = &mut self.exits[index.place()];
            (exit.linked, exit.next_incoming) = (false, None);
            *exit
        };
        parted.iter().map(free).collect()
    }
}

impl Cache {
    /// Adds the exits of a new fragment, with their stubs, and links them.
    pub(super) fn commit_exits(&mut self, exits: &mut Vec<Exit>) {
        let first = self.links.exits.len();
        let mut cold = self.begin_cold();
        for mut exit in exits.drain(..) {
            let index = self.exit_index(0);
            if exit.field.is_somewhere() {
                exit.stub = cold.here();
                cold.leave(Reason::exit(index), self.gates.exit);
                self.protection.patch(exit.field, exit.stub);
            }
            self.links.exits.push(exit);
        }
        self.end_cold(&cold);
        for index in first..self.links.exits.len() {
            self.link(ExitIndex::at(index));
        }
    }

    /// Links an exit to the entry for its target, if there is one. Returns that entry.
    pub fn link_exit(&mut self, index: ExitIndex) -> Option<LinkedEntry> {
        self.link(index);
        let exit = self.exit(index);
        match exit.kind() {
            ExitKind::Version(version) => self.version(exit.target, version).copied(),
            _ => self.entry(exit.target).copied(),
        }
    }

    fn link(&mut self, index: ExitIndex) {
        let exit = *self.exit(index);
        if exit.linked || !exit.field.is_somewhere() || self.is_unlinked(exit.target) {
            return;
        }
        let found = match exit.kind() {
            ExitKind::Direct => self.find(exit.target),
            ExitKind::Version(version) => self.version_index(exit.target, version),
            _ => None,
        };
        let Some(entry_index) = found else {
            return;
        };
        let entry = self.links.entries[entry_index.place()];
        let place = if exit.binding == RegisterBinding::default() {
            entry.cache
        } else if entry.bound.is_somewhere() && entry.binding == exit.binding {
            entry.bound
        } else if self.has_cold_room() {
            self.exchange_on_the_way(exit.binding, &entry)
        } else {
            return;
        };
        self.protection.patch(exit.field, place);
        self.links.join(index, entry_index);
    }

    /// Emits code that exchanges the trace registers spilled for those that an entry expects, if
    /// it does, and goes on there. Returns where it is.
    fn exchange_on_the_way(&mut self, binding: RegisterBinding, to: &LinkedEntry) -> CacheAddress {
        let mut cold = self.begin_cold();
        let here = cold.here();
        if to.bound.is_somewhere() {
            binding.exchange(to.binding, &mut cold);
            cold.jump(to.bound);
        } else {
            binding.restore(&mut cold);
            cold.jump(to.cache);
        }
        self.end_cold(&cold);
        here
    }

    /// Whether the branch table has an entry for a program address.
    #[must_use]
    pub fn is_in_table(&self, pc: u64) -> bool {
        self.branches.covers(pc) && !self.branches.is_empty_at(pc)
    }

    /// Gives indirect branches to a program address, for which there is an entry, a target stub.
    /// The one that wants it has come by this way, and found nothing although the branch table
    /// had an entry, or not.
    pub fn add_target_stub(&mut self, pc: u64, way: Way, was_in_table: bool) {
        if self.is_unlinked(pc) || !self.has_cold_room() {
            return;
        }
        let Some(index) = self.entry_index(pc) else {
            return;
        };
        if self.is_in_table(pc) {
            if was_in_table {
                // The branch came from code that does not use the table.
                self.land_in_chain(pc, self.branches.get(pc), way);
            }
            return;
        }
        let in_table = self.branches.is_empty_at(pc);
        let entry = self.links.entries[index.place()];
        let offered = self.hashed.offered(pc).filter(|_| !in_table);
        let target_stub = if let Some(target_stub) = offered {
            target_stub
        } else if entry.bound.is_somewhere() && self.convention.binding() == entry.binding {
            entry.bound
        } else if entry.bound.is_somewhere() {
            self.exchange_on_the_way(self.convention.binding(), &entry)
        } else {
            let mut cold = self.begin_cold();
            let here = cold.here();
            self.convention.restore(&mut cold);
            cold.jump(entry.cache);
            self.end_cold(&cold);
            here
        };
        if in_table {
            self.branches.set(pc, target_stub);
        } else {
            self.land_in_chain(pc, target_stub, way);
        }
    }

    fn land_in_chain(&mut self, pc: u64, target_stub: CacheAddress, way: Way) {
        let mut cold = self.begin_cold();
        self.hashed
            .set((way, pc), target_stub, (&mut cold, &mut self.protection));
        self.end_cold(&cold);
    }

    /// Makes the exits that lead to an entry leave the cache again.
    pub(super) fn unlink(&mut self, entry: EntryIndex) {
        for exit in self.links.part(entry) {
            self.protection.patch(exit.field, exit.stub);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> Links {
        let mut links = Links::default();
        for pc in [0x1000, 0x2000] {
            let cache = CacheAddress::emitted(0x5000_0000);
            links.push_entry(pc, cache, CacheAddress::NOWHERE, RegisterBinding::default());
            links.exits.push(Exit::by_jump(
                ExitKind::Direct,
                pc,
                CacheAddress::emitted(0x5000_0040),
            ));
            links.exits.push(Exit::by_jump(
                ExitKind::Direct,
                pc,
                CacheAddress::emitted(0x5000_0080),
            ));
        }
        links
    }

    fn module(place: usize) -> ModuleIndex {
        ModuleIndex::at(place).unwrap()
    }

    fn join(links: &mut Links, exit: usize, entry: usize) {
        links.join(ExitIndex::at(exit), EntryIndex::at(entry));
    }

    fn part(links: &mut Links, entry: usize) -> usize {
        links.part(EntryIndex::at(entry)).len()
    }

    /// The places of the exits that lead to an entry.
    fn incoming(links: &Links, entry: usize) -> Vec<usize> {
        let all = links.incoming(EntryIndex::at(entry));
        // One more than there are would be a ring.
        let all = all.take(links.exits.len() + 1);
        all.map(ExitIndex::place).collect()
    }

    #[test]
    fn an_exit_joined_twice_is_listed_once() {
        let mut links = links();
        for exit in [0, 1, 0] {
            join(&mut links, exit, 0);
        }
        assert_eq!(incoming(&links, 0), [1, 0]);
        join(&mut links, 2, 1);
        join(&mut links, 0, 1);
        assert_eq!(incoming(&links, 0), [1, 0]);
        assert_eq!(incoming(&links, 1), [2]);
    }

    #[test]
    fn exits_parted_can_be_joined_again() {
        let mut links = links();
        join(&mut links, 0, 0);
        join(&mut links, 1, 0);
        assert_eq!(part(&mut links, 0), 2);
        assert!(incoming(&links, 0).is_empty());
        join(&mut links, 1, 0);
        join(&mut links, 0, 0);
        assert_eq!(incoming(&links, 0), [0, 1]);
    }

    #[test]
    fn links_within_a_module_are_kept() {
        let mut links = links();
        for (exit, entry) in [(0, 0), (1, 0), (2, 1)] {
            join(&mut links, exit, entry);
        }
        let far = CacheAddress::emitted(0x5000_9000);
        links.exits[1].field = far;
        let module_at = |field| module(usize::from(field == far));
        let entries = [
            (module(0), 0x2000, EntryIndex::at(1)),
            (module(0), 0x1000, EntryIndex::at(0)),
        ];
        let (entries, exits) = links.to_keep(&entries, module_at);
        let links = Links {
            entries: Table::kept(entries.leak()),
            exits: Table::kept(exits.leak()),
        };
        assert!(links.are_whole());
        assert_eq!((links.entries[0].pc, links.entries[1].pc), (0x2000, 0x1000));
        assert_eq!(
            (incoming(&links, 0), incoming(&links, 1)),
            (vec![2], vec![0])
        );
        let linked: Vec<_> = links.exits.iter().map(Exit::is_linked).collect();
        assert_eq!(linked, [true, false, true, false]);
    }
}
