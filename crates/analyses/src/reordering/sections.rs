//! The sections of a run in which threads held locks.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unspool_events::ThreadId;

use super::Moment;
use crate::locks::LockUse;

/// The number of a section: later ones of a lock have greater numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SectionId(u32);

/// What a thread did while it held a lock.
#[derive(Debug)]
struct Section {
    thread: ThreadId,
    lock: LockUse,
    /// The event by which it has taken it.
    begins: u32,
    /// That by which it has released it; none while it holds it.
    ends: Option<u32>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Sections {
    all: Vec<Section>,
    /// Those of a lock by each thread, in their order.
    of_locks: FxHashMap<u64, BTreeMap<ThreadId, Vec<SectionId>>>,
}

impl Sections {
    fn get(&self, id: SectionId) -> &Section {
        &self.all[id.0 as usize]
    }

    /// A thread takes a lock.
    pub(super) fn begin(&mut self, thread: ThreadId, event: u32, lock: LockUse) -> SectionId {
        let id = SectionId(self.all.len() as u32);
        self.all.push(Section {
            thread,
            lock,
            begins: event,
            ends: None,
        });
        let threads = self.of_locks.entry(lock.address).or_default();
        threads.entry(thread).or_default().push(id);
        id
    }

    /// It releases it.
    pub(super) fn end(&mut self, id: SectionId, event: u32) {
        self.all[id.0 as usize].ends = Some(event);
    }

    /// The lock, and how it was taken.
    pub(super) fn taken(&self, id: SectionId) -> &LockUse {
        &self.get(id).lock
    }

    /// The event of its thread that ends it.
    pub(super) fn end_of(&self, id: SectionId) -> Option<u32> {
        self.get(id).ends
    }

    /// By which events a lock was taken last by each thread.
    pub(super) fn last_of(&self, lock: u64) -> impl Iterator<Item = Moment> {
        let threads = self.of_locks.get(&lock).into_iter().flatten();
        threads.filter_map(|(thread, sections)| {
            let last = self.get(*sections.last()?);
            Some(Moment {
                thread: *thread,
                event: last.begins,
            })
        })
    }

    /// Whether another thread comes, in a part of what happened, to take the lock behind this
    /// section, and may not while that lasts.
    pub(super) fn is_followed(&self, id: SectionId, part: &[u32]) -> bool {
        let section = self.get(id);
        let threads = self.of_locks.get(&section.lock.address);
        let mut others = threads.into_iter().flatten();
        others.any(|(thread, sections)| {
            let events = part.get(thread.0 as usize).copied().unwrap_or(0);
            let begun = sections.partition_point(|it| self.get(*it).begins <= events);
            let mut later = sections[..begun].iter().rev().take_while(|it| **it > id);
            let is_exclusive = |it: &SectionId| !self.get(*it).lock.is_shared;
            *thread != section.thread
                && match section.lock.is_shared {
                    true => later.any(is_exclusive),
                    false => later.next().is_some(),
                }
        })
    }

    /// Forgets all but these. Returns the numbers that they have now.
    pub(super) fn keep(
        &mut self,
        kept: impl Iterator<Item = SectionId>,
    ) -> FxHashMap<SectionId, SectionId> {
        let mut kept: Vec<SectionId> = kept.collect();
        kept.sort_unstable();
        let old = std::mem::take(&mut self.all);
        self.of_locks.clear();
        let mut renamed = FxHashMap::default();
        for (section, number) in old.into_iter().zip(0..) {
            if kept.binary_search(&SectionId(number)).is_ok() {
                let id = self.begin(section.thread, section.begins, section.lock);
                self.all[id.0 as usize].ends = section.ends;
                renamed.insert(SectionId(number), id);
            }
        }
        renamed
    }

    pub(super) fn bytes(&self) -> usize {
        self.all.len() * (size_of::<Section>() + size_of::<SectionId>())
    }
}
