//! Taking over what an earlier process left: see [`super::snapshot`].
//!
//! The tables are used where they lie. A fragment, its entries and the place of its code are looked
//! for there as soon as its module is active, so that activating it changes none of them.

use std::cmp::Ordering;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use unspool_kernel::layout;

use super::active::{ActiveModules, KeptBlock};
use super::kept_branches::{self, Run, TargetStub};
use super::links::EntryIndex;
use super::pc_map::PcMap;
use super::source_ranges::SourceRange;
use super::table::{Damaged, Record, Table, Tables};
use super::{Cache, Fragment, FragmentId, ModuleIndex};
use crate::address::CacheAddress;
use crate::branch_table::BranchTable;
use crate::gates::GATES_SIZE;

/// What was taken over, of modules some of which sleep still.
#[derive(Debug, Default)]
pub(super) struct Inactive {
    /// The modules, by their numbers.
    modules: &'static [KeptModule],
    /// The code of which fragments were made, by module and start.
    parts: &'static [SourceRange],
    /// Where the parts and entries of each block of code begin, by module.
    blocks: &'static [KeptBlock],
    /// Where indirect branches arrive, in order.
    target_stubs: &'static [TargetStub],
    /// The pages of the branch table that hold these, and where the first run is mapped.
    runs: Vec<Run>,
    mapped: Option<u64>,
    /// Whether each module is active.
    active: Vec<bool>,
    /// Where to look for what these have.
    by_address: ActiveModules,
}

/// Where what belongs to a module ends; where it begins, that of the one before it ends.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct KeptModule {
    /// The number of its first block of code.
    pub(super) first_block: u64,
    /// Among the blocks.
    pub(super) blocks: u32,
    /// Among the parts of code.
    pub(super) parts: u32,
}

// SAFETY: without padding, and made of numbers.
unsafe impl Record for KeptModule {}

/// What is kept.
pub struct KeptCode<'a> {
    /// The file that holds it, if it can be relied on as long as the process lives.
    pub file: Option<BorrowedFd<'a>>,
    /// Whether it is known to be what [`Cache::keep`] gave.
    pub trusted: bool,
    /// Where the tables start in the file, and their content.
    pub tables: (u64, &'a [u8]),
    /// Where the code of the hot and the cold half starts in the file, and its content.
    pub halves: [(u64, &'a [u8]); 2],
    /// Where the pages of the branch table start in the file, and how many bytes they have.
    pub branches: (u64, u64),
}

impl Inactive {
    /// Whether a number is that of a module that sleeps.
    pub(super) fn is_inactive(&self, module: ModuleIndex) -> bool {
        module.place() < self.modules.len() && !self.is_active(module)
    }

    pub(super) fn is_active(&self, module: ModuleIndex) -> bool {
        self.active.get(module.place()) == Some(&true)
    }

    /// Where indirect branches arrive in modules that sleep.
    pub(super) fn target_stubs(&self) -> impl Iterator<Item = &TargetStub> {
        let inactive = |target_stub: &&TargetStub| self.is_inactive(target_stub.module);
        self.target_stubs.iter().filter(inactive)
    }

    /// The index of a module.
    fn blocks(&self, module: usize) -> &'static [KeptBlock] {
        let start = module
            .checked_sub(1)
            .map_or(0, |one| self.modules[one].blocks);
        &self.blocks[start as usize..self.modules[module].blocks as usize]
    }

    /// The fragments of active modules some of whose code lies in a range, which is not empty.
    pub(super) fn fragments_in(&self, range: Range<u64>) -> impl Iterator<Item = FragmentId> {
        let Range { start, end } = range;
        let places = self.by_address.parts(range);
        places
            .flat_map(move |places| {
                let parts = self.parts[places].iter();
                parts.take_while(move |part| part.start < end)
            })
            .filter(move |part| part.end() > start)
            .map(|part| part.fragment)
    }
}

impl Cache {
    /// Takes over a snapshot. The cache must be new, and what [`Cache::keep`] was called on
    /// must have had the same gates and size.
    ///
    /// # Errors
    /// If it is damaged. The cache is then as new.
    pub fn take_over(&mut self, code: &KeptCode) -> Result<(), Damaged> {
        let result = self
            .take_code(code)
            .and_then(|()| self.take_tables(Tables::new(place_tables(code), code.trusted)))
            .and_then(|()| match code.trusted {
                true => self.map_branches(code),
                false => self.check(),
            });
        if result.is_err() {
            self.empty();
        }
        result
    }

    fn take_code(&mut self, code: &KeptCode) -> Result<(), Damaged> {
        let starts = [layout::cache() + GATES_SIZE, self.middle()];
        let ends = [self.middle(), self.end()];
        for (half, (_, bytes)) in code.halves.iter().enumerate() {
            if bytes.len() as u64 > ends[half] - starts[half] {
                return Err(Damaged);
            }
        }
        let [hot, cold] =
            std::array::from_fn(|half| starts[half] + code.halves[half].1.len() as u64);
        self.opened = self.opened.reach(hot, cold, self.size);
        if self.opened.hot < hot || self.opened.cold < cold {
            return Err(Damaged);
        }
        for (start, (offset, bytes)) in starts.into_iter().zip(code.halves) {
            put_code(start, bytes, code.file.map(|file| (file, offset)));
        }
        (self.hot, self.cold) = (hot, cold);
        self.protection.took_over([hot, cold]);
        Ok(())
    }

    fn take_tables(&mut self, mut tables: Tables) -> Result<(), Damaged> {
        self.pc_map = PcMap::kept(tables.next()?);
        self.spills = Table::kept(tables.next()?);
        self.fragments = Table::kept(tables.next()?);
        self.links.exits = Table::kept(tables.next()?);
        self.links.entries = Table::kept(tables.next()?);
        self.inactive = Inactive {
            modules: tables.next()?,
            parts: tables.next()?,
            blocks: tables.next()?,
            target_stubs: tables.next()?,
            ..Inactive::default()
        };
        self.has_plain = self.fragments.len() > 0;
        let Inactive { modules, parts, .. } = &self.inactive;
        let last = |module: &KeptModule| parts.get((module.parts as usize).checked_sub(1)?);
        let mut last_ones = modules.iter().filter_map(last);
        if last_ones.any(|part| !self.branches.covers(part.start)) {
            self.hashed.make_ready();
        }
        Ok(())
    }

    /// Maps the pages of the branch table, to be moved there when their modules are activated. Where this
    /// cannot be done the entries are set one by one.
    fn map_branches(&mut self, code: &KeptCode) -> Result<(), Damaged> {
        let (offset, size) = code.branches;
        let runs = kept_branches::runs(self.inactive.target_stubs);
        if kept_branches::bytes(&runs) != size {
            return Err(Damaged);
        }
        self.inactive.runs = runs;
        // What is mapped stays even if the snapshot is given up: it is not known then which of it
        // has been moved, and what the kernel has put there since.
        self.inactive.mapped = code
            .file
            .filter(|_| size > 0)
            .and_then(|file| layout::map_file((file, offset), size).ok());
        Ok(())
    }

    /// Whether all references of what was taken over lead somewhere.
    fn check(&self) -> Result<(), Damaged> {
        let hot = layout::cache() + GATES_SIZE..self.hot;
        let cold = self.middle()..self.cold;
        let in_hot = |field: CacheAddress| {
            let field = field.get();
            field == 0 || hot.contains(&field) && hot.contains(&(field + 3))
        };
        let mut last_end = CacheAddress::NOWHERE;
        let fragments = self.fragments.iter().all(|fragment: &Fragment| {
            let spills = fragment.spills as usize + usize::from(fragment.spill_count);
            let in_order = std::mem::replace(&mut last_end, fragment.end) <= fragment.start;
            in_order
                && hot.contains(&fragment.start.get())
                && fragment.end.get() <= hot.end
                && fragment.start <= fragment.end
                && spills <= self.spills.len()
                && (fragment.pc_map as usize) < self.pc_map.bytes().len()
        });
        let mut exits = self.links.exits.iter();
        let exits = exits.all(|exit| {
            in_hot(exit.field) && (cold.contains(&exit.stub.get()) || !exit.field.is_somewhere())
        });
        let entries = self.links.entries.iter().all(|entry| in_hot(entry.cache));
        let all = fragments && exits && entries && self.links.are_whole() && self.check_inactive();
        all.then_some(()).ok_or(Damaged)
    }

    fn check_inactive(&self) -> bool {
        let Inactive {
            modules,
            parts,
            blocks,
            target_stubs,
            ..
        } = &self.inactive;
        let code = layout::cache()..self.cold;
        let is_in_order = |one: &KeptModule, next: &KeptModule| {
            one.parts <= next.parts && one.blocks <= next.blocks
        };
        let end = modules.last().copied().unwrap_or_default();
        let modules = modules.is_sorted_by(is_in_order)
            && end.parts as usize <= parts.len()
            && end.blocks as usize <= blocks.len()
            && modules
                .iter()
                .all(|module| module.first_block <= u64::from(u32::MAX) << 24);
        let blocks = blocks
            .is_sorted_by(|one, next| one.part <= next.part && one.entry <= next.entry)
            && blocks.last().is_none_or(|last| {
                last.part as usize <= parts.len() && last.entry as usize <= self.links.entries.len()
            });
        let mut parts = parts.iter();
        let parts = parts.all(|part| part.fragment.place() < self.fragments.len());
        let target_stubs = target_stubs.is_sorted()
            && target_stubs
                .iter()
                .all(|target_stub| code.contains(&target_stub.code.get()));
        modules && blocks && parts && target_stubs
    }

    /// The code of a module is there: its translations can be entered from now on.
    pub fn activate(&mut self, module: ModuleIndex) {
        let inactive = &mut self.inactive;
        if !inactive.is_inactive(module) {
            return;
        }
        let number = module.place();
        inactive.active.resize(inactive.modules.len(), false);
        inactive.active[number] = true;
        let blocks = inactive.blocks(number);
        let first_block = inactive.modules[number].first_block;
        inactive.by_address.insert(first_block, blocks);
        activate_target_stubs(&mut self.branches, inactive, module);
    }

    /// The kept entries for a program address, of modules that are active.
    pub(super) fn kept_entries(&self, pc: u64) -> impl Iterator<Item = EntryIndex> + '_ {
        self.inactive
            .by_address
            .entries(pc)
            .filter_map(move |places| {
                let entries = self.links.entries.range(places.clone());
                let place = entries.binary_search_by_key(&pc, |entry| entry.pc).ok()?;
                Some(EntryIndex::at(places.start + place))
            })
    }
}

fn activate_target_stubs(branches: &mut BranchTable, inactive: &Inactive, module: ModuleIndex) {
    let Some(mapped) = inactive.mapped else {
        let target_stubs = of_one(inactive.target_stubs, |target_stub| {
            target_stub.module.cmp(&module)
        });
        return set_target_stubs(branches, target_stubs);
    };
    for run in of_one(&inactive.runs, |run| run.module.cmp(&module)) {
        let target_stubs = &inactive.target_stubs[run.target_stubs.clone()];
        let addresses = target_stubs
            .iter()
            .map(|target_stub| u64::from(target_stub.pc));
        if !branches.adopt(&run.pages, mapped + run.offset, addresses) {
            set_target_stubs(branches, target_stubs);
        }
    }
}

fn set_target_stubs(branches: &mut BranchTable, target_stubs: &[TargetStub]) {
    branches.prepare(
        target_stubs
            .iter()
            .map(|target_stub| u64::from(target_stub.pc)),
    );
    for target_stub in target_stubs {
        branches.set(u64::from(target_stub.pc), target_stub.code);
    }
}

/// The elements of one module, which stand together, in a table that is in order.
fn of_one<T>(table: &[T], compare: impl Fn(&T) -> Ordering) -> &[T] {
    let first = table.partition_point(|one| compare(one).is_lt());
    let count = table[first..].partition_point(|one| compare(one).is_eq());
    &table[first..][..count]
}

/// Puts the tables where they stay: mapped, or where the file cannot be relied on, copied. What
/// is written to them does not reach the file.
fn place_tables(code: &KeptCode) -> &'static mut [u8] {
    let (offset, content) = code.tables;
    let size = content.len();
    let file = code.file.filter(|_| code.trusted && size > 0);
    let mapped = file.map(|file| layout::map_file((file, offset), size as u64));
    let Some(Ok(mapped)) = mapped else {
        let copy = vec![0_u64; size.div_ceil(8)]
            .leak()
            .as_mut_ptr()
            .cast::<u8>();
        // SAFETY: the copy has room for all of it, and is nobody else's from here on.
        return unsafe {
            std::ptr::copy_nonoverlapping(content.as_ptr(), copy, size);
            std::slice::from_raw_parts_mut(copy, size)
        };
    };
    // SAFETY: a new mapping, of as many bytes as the file has there, which nobody unmaps.
    unsafe { std::slice::from_raw_parts_mut(mapped as *mut u8, size) }
}

/// Puts code at its place in the cache, where the caller has made room: from the file, or where
/// that cannot be mapped, or not be executed, by copying.
fn put_code(at: u64, code: &[u8], place: Option<(BorrowedFd, u64)>) {
    // SAFETY: the cache is new, so nothing is there.
    let map = |place| unsafe { layout::map_cache(at, code.len() as u64, place) };
    if place.is_none_or(|place| map(place).is_err()) {
        // SAFETY: as above; the range can be written.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::active;
    use super::*;

    #[test]
    fn kept_pieces_are_found_by_each_of_their_bytes() {
        let part = |start, length, fragment| SourceRange {
            start,
            length,
            fragment: FragmentId::at(fragment),
        };
        let parts = [part(0x1000, 40, 5), part(0x1008, 4, 2), part(0x1030, 1, 9)];
        let (first_block, blocks) = active::index((0, &parts), (0, &[]));
        let mut inactive = Inactive {
            parts: parts.to_vec().leak(),
            ..Inactive::default()
        };
        inactive.by_address.insert(first_block, blocks.leak());
        let within = |range| {
            let all = inactive.fragments_in(range);
            all.map(FragmentId::place).collect::<Vec<_>>()
        };
        let at = |pc| within(pc..pc + 1);
        assert_eq!(at(0x0fff), []);
        assert_eq!(at(0x1000), [5]);
        assert_eq!(at(0x1008), [5, 2]);
        assert_eq!(at(0x100c), [5]);
        assert_eq!(at(0x1027), [5]);
        assert_eq!(at(0x1028), []);
        assert_eq!(at(0x1030), [9]);
        assert_eq!(within(0x1027..0x1031), [5, 9]);
        assert_eq!(within(0..u64::MAX), [5, 2, 9]);
        assert!(within(0x1028..0x1030).is_empty());
    }
}
