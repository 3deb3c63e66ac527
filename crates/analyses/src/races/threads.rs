//! The threads, what each knows of the others, and who has which slot.

use std::collections::BTreeMap;
use std::sync::Arc;

use unspool_events::ThreadId;

use super::clock::{Epoch, Slot, VectorClock};
use crate::locks::LockUse;

/// Locks that a thread holds.
pub(super) type HeldLocks = Arc<[LockUse]>;

/// Changes of the locks that are held in one slot, as far as they are kept: of earlier accesses it is
/// not known any more what was held.
const CHANGES_KEPT: usize = 1 << 15;

/// A thread that runs.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) id: ThreadId,
    slot: Slot,
    /// What came before, its own epoch included.
    pub(super) clock: VectorClock,
    /// Whether others may have been told of this epoch: what it does now belongs to the next one.
    pub(super) is_told: bool,
    locks: HeldLocks,
}

/// Who has had a slot.
#[derive(Debug, Default)]
struct Column {
    /// From which clock on.
    owners: Vec<(u32, ThreadId)>,
    /// The last clock of its last owner, which has ended; none while one runs.
    last: Option<u32>,
    /// Which locks its owner holds, from which clock on.
    locks: Vec<(u32, HeldLocks)>,
}

/// All threads.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// By number; those that run.
    running: BTreeMap<ThreadId, Thread>,
    /// What came before threads that were created and have not begun.
    births: BTreeMap<ThreadId, VectorClock>,
    columns: Vec<Column>,
    /// Whether nobody else runs, and the one that does knows of everything.
    is_alone: bool,
}

/// There is no slot left.
#[derive(Debug)]
pub(super) struct NoSlot;

impl Thread {
    pub(super) fn epoch(&self) -> Epoch {
        Epoch::new(self.slot, self.clock.get(self.slot))
    }
}

impl Column {
    /// From a clock on its owner holds these locks.
    fn holds(&mut self, clock: u32, locks: &HeldLocks) {
        while self.locks.pop_if(|(first, _)| *first >= clock).is_some() {}
        if self.locks.last().is_some_and(|(_, held)| held == locks) {
            return;
        }
        if self.locks.len() == CHANGES_KEPT {
            self.locks.drain(..CHANGES_KEPT / 2);
        }
        self.locks.push((clock, Arc::clone(locks)));
    }
}

impl Threads {
    /// A thread that runs.
    pub(super) fn get(&mut self, id: ThreadId) -> Option<&mut Thread> {
        self.running.get_mut(&id)
    }

    /// What the thread knows that had a slot last, if it still runs.
    pub(super) fn clock_of(&self, slot: Slot) -> Option<&VectorClock> {
        let (_, owner) = self.columns.get(slot as usize)?.owners.last()?;
        let thread = self.running.get(owner)?;
        Some(&thread.clock)
    }

    /// Whose epoch it is.
    pub(super) fn owner(&self, epoch: Epoch) -> ThreadId {
        let owners = self.columns.get(epoch.slot() as usize);
        let owners = owners.map_or(&[][..], |column| &column.owners);
        let after = owners.partition_point(|(first, _)| *first <= epoch.clock());
        let owner = after.checked_sub(1).and_then(|last| owners.get(last));
        owner.map_or(ThreadId(u32::MAX), |(_, id)| *id)
    }

    /// From its next access on a thread holds these locks.
    pub(super) fn holds(&mut self, id: ThreadId, locks: HeldLocks) {
        if let Some(thread) = self.running.get_mut(&id) {
            let next = thread.epoch().clock() + 1;
            self.columns[thread.slot as usize].holds(next, &locks);
            thread.locks = locks;
            thread.is_told = true;
        }
    }

    /// The locks that whose epoch it is held then, if that is still known.
    pub(super) fn locks_in(&self, epoch: Epoch) -> Option<&HeldLocks> {
        let locks = &self.columns.get(epoch.slot() as usize)?.locks;
        let after = locks.partition_point(|(first, _)| *first <= epoch.clock());
        let (_, held) = locks.get(after.checked_sub(1)?)?;
        Some(held)
    }

    /// Whether one thread runs that knows of everything: it cannot meet anybody.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// A thread is created by one that runs.
    pub(super) fn create(&mut self, creator: ThreadId, child: ThreadId) {
        let clock = self
            .running
            .get(&creator)
            .map(|thread| thread.clock.clone());
        self.births.insert(child, clock.unwrap_or_default());
        self.is_alone = false;
    }

    /// A thread is about to begin behind what this clock covers.
    pub(super) fn create_behind(&mut self, child: ThreadId, clock: VectorClock) {
        self.births.insert(child, clock);
        self.is_alone = false;
    }

    /// A thread begins. Where its creation was not seen it knows what its parent does.
    pub(super) fn start(&mut self, id: ThreadId, parent: Option<ThreadId>) -> Result<(), NoSlot> {
        let of_parent = || {
            let parent = self.running.get(&parent?)?;
            Some(parent.clock.clone())
        };
        let born = self.births.remove(&id);
        let mut clock = born.or_else(of_parent).unwrap_or_default();
        let locks = HeldLocks::default();
        let found = self.take_slot(id, &clock, &locks);
        let (slot, first) = found.inspect_err(|NoSlot| {
            self.births.insert(id, clock.clone());
        })?;
        clock.set(slot, first);
        let thread = Thread {
            id,
            slot,
            clock,
            is_told: false,
            locks,
        };
        self.running.insert(id, thread);
        self.look_whether_alone();
        Ok(())
    }

    /// A slot, and the clock at which the thread begins in it with these locks: one that the thread
    /// knows the end of, so that whoever knows of the thread knows of all that was done in the slot
    /// before.
    fn take_slot(
        &mut self,
        id: ThreadId,
        clock: &VectorClock,
        locks: &HeldLocks,
    ) -> Result<(Slot, u32), NoSlot> {
        let is_free = |(slot, column): (usize, &Column)| {
            let last = column.last;
            last.is_some_and(|last| last <= clock.get(slot as Slot) && last < Epoch::LAST_CLOCK)
        };
        let slot = match self.columns.iter().enumerate().position(is_free) {
            Some(slot) => slot,
            None if self.columns.len() < Epoch::SLOTS as usize - 1 => {
                self.columns.push(Column::default());
                self.columns.len() - 1
            }
            None => return Err(NoSlot),
        };
        let column = &mut self.columns[slot];
        let first = column.last.take().unwrap_or(0) + 1;
        column.owners.push((first, id));
        column.holds(first, locks);
        Ok((slot as Slot, first))
    }

    /// A thread has ended.
    pub(super) fn end(&mut self, id: ThreadId) {
        if let Some(thread) = self.running.remove(&id) {
            self.columns[thread.slot as usize].last = Some(thread.epoch().clock());
        }
        self.look_whether_alone();
    }

    /// What the thread does from now on is not in what others have been told of it.
    pub(super) fn is_told(&mut self, id: ThreadId) {
        if let Some(thread) = self.running.get_mut(&id) {
            thread.is_told = true;
        }
    }

    /// A thread begins its next epoch.
    pub(super) fn advance(&mut self, id: ThreadId) -> Result<(), NoSlot> {
        let Some(thread) = self.running.get_mut(&id) else {
            return Ok(());
        };
        let clock = thread.epoch().clock();
        if clock < Epoch::LAST_CLOCK {
            thread.clock.set(thread.slot, clock + 1);
            thread.is_told = false;
            return Ok(());
        }
        let (slot, known, locks) = (thread.slot, thread.clock.clone(), thread.locks.clone());
        self.columns[slot as usize].last = Some(clock);
        let (slot, first) = self.take_slot(id, &known, &locks)?;
        if let Some(thread) = self.running.get_mut(&id) {
            thread.slot = slot;
            thread.clock.set(slot, first);
            thread.is_told = false;
        }
        Ok(())
    }

    /// A thread has learnt something, or another has ended.
    pub(super) fn look_whether_alone(&mut self) {
        self.is_alone = false;
        if self.running.len() != 1 || !self.births.is_empty() {
            return;
        }
        let Some((_, thread)) = self.running.first_key_value() else {
            return;
        };
        let mut columns = self.columns.iter().zip(0..);
        self.is_alone = columns.all(|(column, slot)| {
            let last = column.last.unwrap_or(0);
            slot == thread.slot || last <= thread.clock.get(slot)
        });
    }

    /// Whether there is one thread, which may learn that it is alone.
    pub(super) fn is_last(&self) -> bool {
        self.running.len() == 1 && !self.is_alone
    }

    /// All slots begin anew: nothing is known that came before.
    pub(super) fn begin_anew(&mut self) {
        self.columns.clear();
        for clock in self.births.values_mut() {
            *clock = VectorClock::default();
        }
        for (thread, slot) in self.running.values_mut().zip(0..) {
            thread.slot = slot;
            thread.clock = VectorClock::default();
            thread.clock.set(slot, 1);
            thread.is_told = false;
            self.columns.push(Column {
                owners: vec![(1, thread.id)],
                last: None,
                locks: vec![(1, Arc::clone(&thread.locks))],
            });
        }
    }
}
