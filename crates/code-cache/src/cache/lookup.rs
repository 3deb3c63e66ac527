//! From a program address to where translated code can be entered for it.

use super::Cache;
use super::links::{EntryIndex, LinkedEntry};
use crate::address::CacheAddress;
use crate::binding::RegisterBinding;
use crate::exit::Version;

impl Cache {
    /// The entry for a program address.
    #[must_use]
    pub fn entry(&self, pc: u64) -> Option<&LinkedEntry> {
        self.entry_index(pc)
            .map(|index| &self.links.entries[index.place()])
    }

    pub(super) fn entry_index(&self, pc: u64) -> Option<EntryIndex> {
        let new = self.by_pc.get(&pc).copied();
        new.or_else(|| {
            let may_be_entered =
                |index: &EntryIndex| self.is_current(self.links.entries[index.place()].cache);
            self.kept_entries(pc).find(may_be_entered)
        })
    }

    /// The entry for a program address. Where all program state is in place between any two
    /// instructions, any of them becomes an entry when it is wanted.
    pub fn entry_anywhere(&mut self, pc: u64) -> Option<LinkedEntry> {
        self.find(pc).map(|index| self.links.entries[index.place()])
    }

    pub(super) fn find(&mut self, pc: u64) -> Option<EntryIndex> {
        if let Some(index) = self.entry_index(pc) {
            return Some(index);
        }
        let cache = self.inside(pc)?;
        let index =
            self.links
                .push_entry(pc, cache, CacheAddress::NOWHERE, RegisterBinding::default());
        self.by_pc.insert(pc, index);
        Some(index)
    }

    /// The entry for a version of the code at a program address, if it is in a fragment of its own.
    #[must_use]
    pub fn version(&self, pc: u64, version: Version) -> Option<&LinkedEntry> {
        let index = self.version_index(pc, version)?;
        Some(&self.links.entries[index.place()])
    }

    pub(super) fn version_index(&self, pc: u64, version: Version) -> Option<EntryIndex> {
        self.versions.get(&(pc, version)).copied()
    }

    /// Whether there is an entry for a program address, or could be.
    #[must_use]
    pub fn knows(&self, pc: u64) -> bool {
        self.entry_index(pc).is_some() || self.inside(pc).is_some()
    }

    /// Where a fragment that keeps all program state in place between instructions holds the
    /// instruction at a program address.
    pub(super) fn inside(&self, pc: u64) -> Option<CacheAddress> {
        if !self.has_plain || self.is_unlinked(pc) || self.stops.contains(&pc) {
            return None;
        }
        let new = self.source_ranges.fragments_at(pc);
        let mut all = new.chain(self.inactive.fragments_in(pc..pc.saturating_add(1)));
        all.find_map(|id| {
            let fragment = self.fragment(id);
            let step = Some(id)
                .filter(|_| self.is_live(id) && fragment.plain)
                .and_then(|id| self.steps(id).find(|step| step.pc == pc))?;
            Some(fragment.start.plus(step.start))
        })
    }
}
