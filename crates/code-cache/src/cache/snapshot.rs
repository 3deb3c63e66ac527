//! What a code cache leaves to later processes.
//!
//! A snapshot holds the code as it is and the tables that describe it. It makes sense only at
//! the same place, between the same gates. Fragments belong to **modules**, parts of program
//! code that the caller knows how to recognise. Those of no module are left out; those of a
//! module are inactive until [`Cache::activate`] says that its code is there. Links between modules are
//! undone, so that no code is reached that sleeps.
//!
//! The tables stand one after the other ([`super::table`]), in the order in which [`Cache::keep`]
//! writes them, with the records that they have in memory. The code of both halves stands behind
//! them, and behind it the branch table's pages ([`super::kept_branches`]). All of it can be
//! mapped, and is used where it is, page by page: what is never wanted is never read.

use std::ops::Range;

use unspool_kernel::layout;

use super::FragmentId;
use super::active::{self, KeptBlock};
use super::inactive::KeptModule;
use super::kept_branches::{KeptBranches, TargetStub};
use super::links::{EntryIndex, Exit};
use super::source_ranges::SourceRange;
use super::{Cache, Fragment, ModuleIndex, table};
use crate::address::CacheAddress;
use crate::gates::GATES_SIZE;

/// A snapshot.
pub struct Snapshot {
    /// The tables.
    pub tables: Vec<u8>,
    /// The code of both halves.
    pub code: [Vec<u8>; 2],
    /// The pages of the branch table.
    pub branches: KeptBranches,
}

impl Cache {
    /// Makes a snapshot. `module` says to which module all code of a range belongs;
    /// `inactive` what modules taken over that nobody has woken are now.
    pub fn keep(
        &self,
        module: impl Fn(Range<u64>) -> Option<ModuleIndex>,
        inactive: impl Fn(ModuleIndex) -> Option<ModuleIndex>,
    ) -> Snapshot {
        let modules = self.fragment_modules(&module, &inactive);
        let entries = self.entries_to_keep(&modules);
        let module_at = |cache| self.module_at(&modules, cache);
        let (kept_entries, exits) = self.links.to_keep(&entries, module_at);
        let parts = self.parts_to_keep(&modules);
        let target_stubs = self.target_stubs_to_keep(&modules, &module, &inactive);

        let mut tables = Vec::new();
        let kept = |(fragment, &module): (&Fragment, &ModuleIndex)| Fragment {
            module,
            live: module != ModuleIndex::NONE,
            ..*fragment
        };
        let fragments: Vec<_> = self.fragments.iter().zip(&modules).map(kept).collect();
        table::put(&mut tables, self.pc_map.bytes().iter());
        table::put(&mut tables, self.spills.iter());
        table::put(&mut tables, &fragments);
        table::put(&mut tables, &exits);
        table::put(&mut tables, &kept_entries);
        let (modules, blocks) = kept_modules(&entries, &parts);
        table::put(&mut tables, &modules);
        table::put(&mut tables, parts.iter().map(|(_, part)| part));
        table::put(&mut tables, &blocks);
        table::put(&mut tables, &target_stubs);
        Snapshot {
            tables,
            code: [self.hot_image(&exits), code_bytes(self.middle()..self.cold)],
            branches: KeptBranches::new(target_stubs, self.branches.miss()),
        }
    }

    /// Bytes of program code that were translated anew and belong to modules: a later process could
    /// use these translations.
    pub fn new_bytes(&self, module: impl Fn(Range<u64>) -> Option<ModuleIndex>) -> u64 {
        let all = self.all_fragments();
        let new = all.skip(self.fragments.kept_len());
        let kept =
            new.filter(|&(id, fragment)| self.is_live(id) && module(code_of(fragment)).is_some());
        kept.map(|(_, fragment)| u64::from(fragment.length)).sum()
    }

    fn all_fragments(&self) -> impl Iterator<Item = (FragmentId, &Fragment)> {
        (0..).map(FragmentId::at).zip(self.fragments.iter())
    }

    /// The module of each fragment.
    fn fragment_modules(
        &self,
        module: &impl Fn(Range<u64>) -> Option<ModuleIndex>,
        inactive: &impl Fn(ModuleIndex) -> Option<ModuleIndex>,
    ) -> Vec<ModuleIndex> {
        let of_fragment = |(id, fragment): (FragmentId, &Fragment)| {
            if self.is_live(id) {
                return module(code_of(fragment));
            }
            let sleeps = fragment.live && self.inactive.is_inactive(fragment.module);
            sleeps.then(|| inactive(fragment.module))?
        };
        let modules = self.all_fragments().map(of_fragment);
        modules
            .map(|found| found.unwrap_or(ModuleIndex::NONE))
            .collect()
    }

    fn module_at(&self, modules: &[ModuleIndex], cache: CacheAddress) -> ModuleIndex {
        self.fragment_at(cache)
            .map_or(ModuleIndex::NONE, |id| modules[id.place()])
    }

    /// Module, program address and index of each entry worth keeping, in order.
    fn entries_to_keep(&self, modules: &[ModuleIndex]) -> Vec<(ModuleIndex, u64, EntryIndex)> {
        let mut entries: Vec<_> = (0..)
            .map(EntryIndex::at)
            .zip(self.links.entries.iter())
            .filter(|(index, entry)| self.is_wanted(*index, entry.pc, entry.cache))
            .map(|(index, entry)| (self.module_at(modules, entry.cache), entry.pc, index))
            .filter(|&(module, ..)| module != ModuleIndex::NONE)
            .collect();
        entries.sort_unstable();
        entries
    }

    /// Whether an entry is the one that is found for its program address, or will be.
    fn is_wanted(&self, index: EntryIndex, pc: u64, cache: CacheAddress) -> bool {
        let found = self.by_pc.get(&pc);
        let was_kept = index.place() < self.links.entries.kept_len();
        let sleeps = || {
            let fragment = self.fragment_at(cache);
            fragment.is_some_and(|id| self.inactive.is_inactive(self.fragment(id).module))
        };
        found == Some(&index) || was_kept && (found.is_none() || sleeps())
    }

    /// Module and place of the code of each fragment worth keeping, in order.
    fn parts_to_keep(&self, modules: &[ModuleIndex]) -> Vec<(ModuleIndex, SourceRange)> {
        let part = |((id, fragment), &module): ((FragmentId, &Fragment), &ModuleIndex)| {
            let part = SourceRange {
                start: fragment.pc,
                // A fragment without instructions stands for its address.
                length: fragment.length.max(1),
                fragment: id,
            };
            (module, part)
        };
        let all = self.all_fragments().zip(modules).map(part);
        let mut parts: Vec<_> = all
            .filter(|&(module, _)| module != ModuleIndex::NONE)
            .collect();
        parts.sort_unstable();
        parts
    }

    /// The target stubs worth keeping, in order.
    fn target_stubs_to_keep(
        &self,
        modules: &[ModuleIndex],
        module: &impl Fn(Range<u64>) -> Option<ModuleIndex>,
        inactive: &impl Fn(ModuleIndex) -> Option<ModuleIndex>,
    ) -> Vec<TargetStub> {
        let of_module = |(pc, target_stub): (u64, CacheAddress)| {
            let module = module(pc..pc + 1)?;
            // A target stub in the cold half leads to the entry.
            let there = if target_stub.get() < self.middle() {
                target_stub
            } else {
                self.entry(pc)?.cache
            };
            (self.module_at(modules, there) == module)
                .then(|| TargetStub::new(module, pc as u32, target_stub))
        };
        let mut target_stubs: Vec<_> = self.branches.all().filter_map(of_module).collect();
        target_stubs.extend(self.inactive.target_stubs().filter_map(|target_stub| {
            let module = inactive(target_stub.module)?;
            Some(TargetStub::new(module, target_stub.pc, target_stub.code))
        }));
        target_stubs.sort_unstable();
        target_stubs.dedup();
        target_stubs
    }

    /// The hot code, in which exits without a link leave the cache.
    fn hot_image(&self, exits: &[Exit]) -> Vec<u8> {
        let start = layout::cache() + GATES_SIZE;
        let mut image = code_bytes(start..self.hot);
        for exit in exits {
            if exit.field.is_somewhere() && !exit.is_linked() {
                let at = (exit.field.get() - start) as usize;
                let distance = exit.stub.distance_from(exit.field.plus(4));
                image[at..at + 4].copy_from_slice(&distance.to_le_bytes());
            }
        }
        // The next process may have everything below the cache.
        for &(place, branch) in &self.crossings {
            let at = (place.get() - start) as usize;
            image[at..at + 8].copy_from_slice(&branch.bytes());
        }
        image
    }
}

/// Where what belongs to each module ends, and the index of all of them, given what is kept of
/// all, in order.
fn kept_modules(
    entries: &[(ModuleIndex, u64, EntryIndex)],
    parts: &[(ModuleIndex, SourceRange)],
) -> (Vec<KeptModule>, Vec<KeptBlock>) {
    let mut blocks = Vec::new();
    let (mut modules, mut parts_before, mut entries_before) = (Vec::new(), 0, 0);
    let count = parts.last().map_or(0, |(module, _)| module.place() + 1);
    for module in (0..count).map_while(ModuleIndex::at) {
        let of_part =
            |&&(number, part): &&(ModuleIndex, SourceRange)| (number == module).then_some(part);
        let of_entry =
            |&&(number, pc, _): &&(ModuleIndex, u64, EntryIndex)| (number == module).then_some(pc);
        let all = parts[parts_before..].iter();
        let parts: Vec<_> = all.map_while(|part| of_part(&part)).collect();
        let all = entries[entries_before..].iter();
        let entries: Vec<_> = all.map_while(|entry| of_entry(&entry)).collect();
        let (first_block, index) = active::index(
            (parts_before as u32, &parts),
            (entries_before as u32, &entries),
        );
        blocks.extend(index);
        parts_before += parts.len();
        entries_before += entries.len();
        modules.push(KeptModule {
            first_block,
            blocks: blocks.len() as u32,
            parts: parts_before as u32,
        });
    }
    (modules, blocks)
}

/// The program code that a fragment translates. Behind its last instruction may be the target stub
/// of a call's return.
fn code_of(fragment: &Fragment) -> Range<u64> {
    fragment.pc..fragment.pc + u64::from(fragment.length) + 1
}

fn code_bytes(range: Range<u64>) -> Vec<u8> {
    let length = (range.end - range.start) as usize;
    // SAFETY: the range was emitted into the cache; jumps are patched only under its lock.
    unsafe { std::slice::from_raw_parts(range.start as *const u8, length) }.to_vec()
}
