//! What a code cache leaves to later processes, and what one takes over.
//!
//! A snapshot holds the code as it is and the tables that describe it. It makes sense only at
//! the same place, between the same gates. Fragments belong to **modules**, pieces of program
//! code that the caller knows how to recognise. Those of no module are left out; those of a
//! module sleep until [`Cache::wake`] says that its code is there. Links between modules are
//! undone, so that no code is reached that sleeps.
//!
//! The layout of the tables is this module's own: of each one, in the order in which
//! [`Cache::keep`] writes them, the length in bytes and the records, little-endian, all records
//! equally long. The code of both halves stands behind them, and behind it the branch table's pages
//! ([`super::kept_branches`]), where a file can be mapped: both are used where they are, page by
//! page, and what is never run is never read.

use std::cmp::Ordering;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use super::kept_branches::{self, KeptBranches, Landing, Run};
use super::{Cache, Exit, Fragment, Loan};
use crate::branch_table::BranchTable;
use crate::exit::ExitKind;
use crate::gates::GATES_SIZE;
use crate::layout;
use crate::warmth::Warmth;

/// The number of the module of fragments that belong to none.
const NO_MODULE: u16 = u16::MAX;

/// A snapshot that is not one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the kept translations are damaged")]
pub struct Damaged;

/// What was taken over, of modules some of which sleep still.
#[derive(Debug, Default)]
pub(super) struct Sleeping {
    /// The module of each fragment.
    fragments: Vec<u16>,
    /// The entries: module and number, in order.
    entries: Vec<(u16, u32)>,
    /// Where indirect branches arrive, in order.
    landings: Vec<Landing>,
    /// The pages of the branch table that hold these, and where the first run is mapped.
    runs: Vec<Run>,
    mapped: Option<u64>,
    /// The modules that do not sleep any more.
    awake: Vec<u16>,
}

/// What a snapshot has beside its tables.
pub struct KeptCode<'a> {
    /// The file that holds it, if it can be relied on as long as the process lives.
    pub file: Option<BorrowedFd<'a>>,
    /// Where the code of the hot and the cold half starts in the file, and its content.
    pub halves: [(u64, &'a [u8]); 2],
    /// Where the pages of the branch table start in the file, and how many bytes they have, if
    /// they can be used.
    pub branches: Option<(u64, u64)>,
}

/// A snapshot, beside its tables.
pub struct Snapshot {
    /// The code of both halves.
    pub code: [Vec<u8>; 2],
    /// The pages of the branch table.
    pub branches: KeptBranches,
}

impl Cache {
    /// Appends a snapshot's tables, and returns the rest of it. `module` gives the number of the
    /// module that all code of a range belongs to, below 65,535; `asleep` are the new numbers of
    /// modules taken over that nobody has woken.
    pub fn keep(
        &self,
        module: impl Fn(Range<u64>) -> Option<u16>,
        asleep: impl Fn(u16) -> Option<u16>,
        to: &mut Vec<u8>,
    ) -> Snapshot {
        let modules = self.fragment_modules(&module, &asleep);
        let entries = self.entries_to_keep(&modules);
        let links = self.links_to_keep(&modules, &entries);
        let landings = self.landings_to_keep(&modules, &module, &asleep);
        let branches = KeptBranches::new(landings, self.branches.miss());

        put_bytes(to, self.boundaries.bytes());
        put_table(to, &self.loans, |to, loan| {
            to.extend(loan.start.to_le_bytes());
            to.extend(loan.end.to_le_bytes());
            to.extend([loan.register, loan.slot]);
        });
        let fragments: Vec<_> = self.fragments.iter().zip(&modules).collect();
        put_table(to, &fragments, |to, (fragment, module)| {
            to.extend(fragment.pc.to_le_bytes());
            for number in [
                fragment.start,
                fragment.end,
                fragment.length,
                fragment.boundaries,
                fragment.loans,
            ] {
                to.extend(number.to_le_bytes());
            }
            to.extend(fragment.loan_count.to_le_bytes());
            to.extend(module.to_le_bytes());
        });
        let exits: Vec<_> = self.links.exits.iter().zip(&links).collect();
        put_table(to, &exits, |to, (exit, link)| {
            to.extend(exit.target.to_le_bytes());
            for number in [exit.field, exit.stub, exit.detail, **link] {
                to.extend(number.to_le_bytes());
            }
            to.push(exit.kind as u8);
        });
        put_table(to, &entries, |to, &(module, index)| {
            let entry = &self.links.entries[index as usize];
            to.extend(entry.pc.to_le_bytes());
            to.extend(entry.cache.to_le_bytes());
            to.extend(module.to_le_bytes());
        });
        put_table(to, branches.landings(), |to, (module, pc, landing)| {
            to.extend(module.to_le_bytes());
            to.extend(pc.to_le_bytes());
            to.extend(landing.to_le_bytes());
        });
        Snapshot {
            code: [self.hot_image(&links), code_bytes(self.middle()..self.cold)],
            branches,
        }
    }

    /// The module of each fragment.
    fn fragment_modules(
        &self,
        module: &impl Fn(Range<u64>) -> Option<u16>,
        asleep: &impl Fn(u16) -> Option<u16>,
    ) -> Vec<u16> {
        let of_fragment = |(index, fragment): (usize, &Fragment)| {
            if fragment.live {
                // Behind the last instruction may be the landing of a call's return.
                let end = fragment.pc + u64::from(fragment.length) + 1;
                return module(fragment.pc..end);
            }
            let sleeping = self.sleeping.fragments.get(index).copied();
            sleeping
                .filter(|&number| self.sleeping.is_asleep(number))
                .and_then(asleep)
        };
        let modules = self.fragments.iter().enumerate().map(of_fragment);
        modules.map(|found| found.unwrap_or(NO_MODULE)).collect()
    }

    fn module_at(&self, modules: &[u16], cache: u32) -> u16 {
        self.fragment_at(u64::from(cache))
            .map_or(NO_MODULE, |index| modules[index as usize])
    }

    /// Module and index of each entry worth keeping; by module, so that one module's can be
    /// woken together.
    fn entries_to_keep(&self, modules: &[u16]) -> Vec<(u16, u32)> {
        let mut entries: Vec<(u16, u32)> = (0..)
            .zip(&self.links.entries)
            .filter(|(index, entry)| {
                self.by_pc.get(&entry.pc) == Some(index) || self.sleeping.has_entry(*index)
            })
            .map(|(index, entry)| (self.module_at(modules, entry.cache), index))
            .filter(|&(module, _)| module != NO_MODULE)
            .collect();
        entries.sort_unstable();
        entries
    }

    /// For each exit the number among `entries`, plus 1, of the one that it leads to; 0 for
    /// none in its own module.
    fn links_to_keep(&self, modules: &[u16], entries: &[(u16, u32)]) -> Vec<u32> {
        let mut links = vec![0_u32; self.links.exits.len()];
        for (number, &(module, index)) in (1..).zip(entries) {
            for exit in self.links.incoming(index) {
                let field = self.links.exits[exit as usize].field;
                if self.module_at(modules, field) == module {
                    links[exit as usize] = number;
                }
            }
        }
        links
    }

    /// Module, program address and cache address of each landing worth keeping, in order.
    fn landings_to_keep(
        &self,
        modules: &[u16],
        module: &impl Fn(Range<u64>) -> Option<u16>,
        asleep: &impl Fn(u16) -> Option<u16>,
    ) -> Vec<(u16, u64, u32)> {
        let of_module = |(pc, landing): (u64, u64)| {
            let module = module(pc..pc + 1)?;
            // A landing in the cold half leads to the entry.
            let there = if landing < self.middle() {
                landing as u32
            } else {
                self.entry(pc)?.cache
            };
            (self.module_at(modules, there) == module).then_some((module, pc, landing as u32))
        };
        let mut landings: Vec<_> = self.branches.all().filter_map(of_module).collect();
        for &(number, pc, landing) in &self.sleeping.landings {
            if self.sleeping.is_asleep(number) {
                landings.extend(asleep(number).map(|number| (number, pc, landing)));
            }
        }
        landings.sort_unstable();
        landings.dedup();
        landings
    }

    /// The hot code, in which exits without a link leave the cache.
    fn hot_image(&self, links: &[u32]) -> Vec<u8> {
        let start = layout::cache() + GATES_SIZE;
        let mut image = code_bytes(start..self.hot);
        for (exit, &link) in self.links.exits.iter().zip(links) {
            if exit.field != 0 && link == 0 {
                let at = (u64::from(exit.field) - start) as usize;
                let distance = exit.stub.wrapping_sub(exit.field + 4);
                image[at..at + 4].copy_from_slice(&distance.to_le_bytes());
            }
        }
        // The next process may have everything below the cache.
        for &(place, branch) in &self.crossings {
            let at = (place - start) as usize;
            image[at..at + 8].copy_from_slice(&branch.bytes());
        }
        image
    }

    /// Takes over a snapshot. The cache must be new, and what [`Cache::keep`] was called on
    /// must have had the same gates and size.
    ///
    /// # Errors
    /// If it is damaged. The cache is then as new.
    pub fn take_over(&mut self, tables: &[u8], code: &KeptCode) -> Result<(), Damaged> {
        let result = self
            .take_code(code)
            .and_then(|()| self.read_tables(Tables { bytes: tables }))
            .and_then(|()| self.map_branches(code));
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
        for (start, (offset, bytes)) in starts.into_iter().zip(code.halves) {
            put_code(start, bytes, code.file.map(|file| (file, offset)));
        }
        (self.hot, self.cold) = (hot, cold);
        Ok(())
    }

    /// Maps the pages of the branch table, to be moved there when their modules wake. Where this
    /// cannot be done the entries are set one by one.
    fn map_branches(&mut self, code: &KeptCode) -> Result<(), Damaged> {
        let Some((file, (offset, size))) = code.file.zip(code.branches) else {
            return Ok(());
        };
        self.sleeping.runs = kept_branches::runs(&self.sleeping.landings);
        if kept_branches::bytes(&self.sleeping.runs) != size {
            return Err(Damaged);
        }
        // What is mapped stays even if the snapshot is given up: it is not known then which of it
        // has been moved, and what the kernel has put there since.
        self.sleeping.mapped = layout::map_anywhere((file, offset), size).ok();
        Ok(())
    }

    fn read_tables(&mut self, mut tables: Tables) -> Result<(), Damaged> {
        self.boundaries.set_bytes(tables.next(1)?.to_vec());
        for mut record in tables.records(6)? {
            self.loans.push(Loan {
                start: record.u16(),
                end: record.u16(),
                register: record.u8(),
                slot: record.u8(),
            });
        }
        let fragments = tables.records(32)?;
        reserve(&mut self.fragments, fragments.len());
        for mut record in fragments {
            let pc = record.u64();
            let [start, end, length, boundaries, loans] = std::array::from_fn(|_| record.u32());
            let (loan_count, module) = (record.u16(), record.u16());
            self.has_plain = true;
            self.fragments.push(Fragment {
                start,
                end,
                pc,
                length,
                boundaries,
                loans,
                loan_count,
                trace: 0,
                live: false,
            });
            self.sleeping.fragments.push(module);
        }
        let mut links = Vec::new();
        let exits = tables.records(25)?;
        reserve(&mut self.links.exits, exits.len());
        reserve(&mut links, exits.len());
        for mut record in exits {
            let target = record.u64();
            let [field, stub, detail, link] = std::array::from_fn(|_| record.u32());
            let kind = ExitKind::from_number(record.u8()).ok_or(Damaged)?;
            let mut exit = Exit::new(kind, target, u64::from(field));
            (exit.stub, exit.detail) = (stub, detail);
            self.links.exits.push(exit);
            links.push(link);
        }
        let entries = tables.records(14)?;
        reserve(&mut self.links.entries, entries.len());
        reserve(&mut self.sleeping.entries, entries.len());
        for mut record in entries {
            let (pc, cache, module) = (record.u64(), record.u32(), record.u16());
            let number = self.links.push_entry(pc, cache, 0, Warmth::default());
            self.sleeping.entries.push((module, number));
        }
        for mut record in tables.records(14)? {
            let (module, pc, landing) = (record.u16(), record.u64(), record.u32());
            self.sleeping.landings.push((module, pc, landing));
        }
        for (exit, link) in (0..).zip(links) {
            if let Some(entry) = u32::checked_sub(link, 1) {
                if entry as usize >= self.links.entries.len() {
                    return Err(Damaged);
                }
                self.links.join(exit, entry);
            }
        }
        if self
            .fragments
            .iter()
            .any(|one| !self.branches.covers(one.pc))
        {
            self.hashed.make_ready();
        }
        self.check()
    }

    /// Whether all references of what was taken over lead somewhere.
    fn check(&self) -> Result<(), Damaged> {
        let hot = (layout::cache() + GATES_SIZE) as u32..self.hot as u32;
        let cold = self.middle() as u32..self.cold as u32;
        let in_hot = |field: u32| field == 0 || hot.contains(&field) && hot.contains(&(field + 3));
        let in_order = self
            .fragments
            .windows(2)
            .all(|pair| pair[0].end <= pair[1].start);
        let fragments = self.fragments.iter().all(|fragment| {
            let loans = fragment.loans as usize + usize::from(fragment.loan_count);
            hot.contains(&fragment.start)
                && fragment.end <= hot.end
                && fragment.start <= fragment.end
                && loans <= self.loans.len()
                && (fragment.boundaries as usize) < self.boundaries.bytes().len()
        });
        let exits = self
            .links
            .exits
            .iter()
            .all(|exit| in_hot(exit.field) && (cold.contains(&exit.stub) || exit.field == 0));
        let entries = self.links.entries.iter().all(|entry| in_hot(entry.cache));
        let landings = self
            .sleeping
            .landings
            .iter()
            .all(|(_, _, landing)| hot.contains(landing) || cold.contains(landing));
        let landings = landings && self.sleeping.landings.is_sorted();
        let all = in_order && fragments && exits && entries && landings;
        all.then_some(()).ok_or(Damaged)
    }

    /// The code of a module is there: its translations can be entered from now on.
    pub fn wake(&mut self, module: u16) {
        let of_module = |number: &&u16| **number == module;
        let count = self.sleeping.fragments.iter().filter(of_module).count();
        self.origins.reserve(count);
        for (index, &number) in (0..).zip(&self.sleeping.fragments) {
            if number == module {
                let fragment = &mut self.fragments[index as usize];
                fragment.live = true;
                let end = fragment.pc + u64::from(fragment.length);
                self.origins.insert_piece(index, fragment.pc..end);
            }
        }
        let entries = of_one(&self.sleeping.entries, |&(number, _)| number.cmp(&module));
        self.by_pc.reserve(entries.len());
        for &(_, index) in entries {
            self.by_pc
                .insert(self.links.entries[index as usize].pc, index);
        }
        self.wake_landings(module);
        self.sleeping.awake.push(module);
    }

    fn wake_landings(&mut self, module: u16) {
        let Sleeping {
            landings,
            runs,
            mapped,
            ..
        } = &self.sleeping;
        let Some(mapped) = mapped else {
            let landings = of_one(landings, |&(number, ..)| number.cmp(&module));
            return set_landings(&mut self.branches, landings);
        };
        for run in of_one(runs, |run| run.module.cmp(&module)) {
            let landings = &landings[run.landings.clone()];
            let addresses = landings.iter().map(|&(_, pc, _)| pc);
            let from = mapped + run.offset;
            if !self.branches.adopt(&run.pages, from, addresses) {
                set_landings(&mut self.branches, landings);
            }
        }
    }
}

impl Sleeping {
    /// Whether a number is that of a module, which sleeps.
    fn is_asleep(&self, module: u16) -> bool {
        module != NO_MODULE && !self.awake.contains(&module)
    }

    /// Whether an entry is one of a module that sleeps.
    fn has_entry(&self, index: u32) -> bool {
        // They were numbered in this order.
        let found = self
            .entries
            .binary_search_by_key(&index, |&(_, number)| number);
        found.is_ok_and(|place| self.is_asleep(self.entries[place].0))
    }
}

fn set_landings(branches: &mut BranchTable, landings: &[Landing]) {
    branches.prepare(landings.iter().map(|&(_, pc, _)| pc));
    for &(_, pc, landing) in landings {
        branches.set(pc, u64::from(landing));
    }
}

/// The elements of one module, which stand together, in a table that is in order.
fn of_one<T>(table: &[T], compare: impl Fn(&T) -> Ordering) -> &[T] {
    let first = table.partition_point(|one| compare(one).is_lt());
    let count = table[first..].partition_point(|one| compare(one).is_eq());
    &table[first..][..count]
}

/// Makes room for `count` elements. The kernel is asked for all of the memory at once: at a
/// fault for each page that would take longer than filling it.
fn reserve<T>(vector: &mut Vec<T>, count: usize) {
    vector.reserve_exact(count);
    let start = vector.as_ptr() as u64;
    layout::populate(start..start + (count * size_of::<T>()) as u64);
}

fn code_bytes(range: Range<u64>) -> Vec<u8> {
    let length = (range.end - range.start) as usize;
    // SAFETY: the range was emitted into the cache; jumps are patched only under its lock.
    unsafe { std::slice::from_raw_parts(range.start as *const u8, length) }.to_vec()
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

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend((bytes.len() as u64).to_le_bytes());
    to.extend(bytes);
}

fn put_table<T>(to: &mut Vec<u8>, records: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    let start = to.len();
    to.extend([0; 8]);
    for record in records {
        put(to, record);
    }
    let length = (to.len() - start - 8) as u64;
    to[start..start + 8].copy_from_slice(&length.to_le_bytes());
}

/// The tables of a snapshot, one after the other.
struct Tables<'a> {
    bytes: &'a [u8],
}

impl<'a> Tables<'a> {
    /// The next table, with records of `size` bytes.
    fn next(&mut self, size: usize) -> Result<&'a [u8], Damaged> {
        let (length, rest) = self.bytes.split_first_chunk().ok_or(Damaged)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| Damaged)?;
        let (table, rest) = rest.split_at_checked(length).ok_or(Damaged)?;
        self.bytes = rest;
        Some(table)
            .filter(|_| length.is_multiple_of(size))
            .ok_or(Damaged)
    }

    fn records(
        &mut self,
        size: usize,
    ) -> Result<impl ExactSizeIterator<Item = Record<'a>>, Damaged> {
        let table = self.next(size)?;
        Ok(table.chunks_exact(size).map(|bytes| Record { bytes }))
    }
}

/// A record, read from its start.
struct Record<'a> {
    bytes: &'a [u8],
}

impl Record<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self
            .bytes
            .split_first_chunk()
            .expect("records have their size");
        self.bytes = rest;
        *taken
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
