//! Races that another order of the same events would show.
//!
//! Each access is held against what other threads did with the same bytes before, wherever a lock or a
//! chance of the schedule put the two apart. What orders there are in which the two stand beside each
//! other is [`crate::reordering`]'s to say. For that every value that a thread has read must be known
//! by who wrote it: plain accesses count like those by which threads synchronise.

mod past;
mod table;

use std::ops::Range;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use unspool_events::{
    Access, AccessFlags, AccessKind, Module, SyncOperation, Synchronisation, ThreadEvent, ThreadId,
};

use super::FUTEX_BYTES;
use super::cell::Record;
use super::clock::{Epoch, VectorClock};
use super::detector::{Channel, Watch};
use super::findings::{Circumstances, Findings, Meeting, Moment as Number, Side};
use super::shadow::parts;
use super::sites::{SiteId, Sites};
use crate::clock::Clock;
use crate::heap::Heap;
use crate::reordering::{Moment, Reordering};
use past::Earlier;
use table::Table;

/// Finds them.
#[derive(Debug)]
pub(super) struct Prediction {
    pub(super) orders: Reordering,
    pub(super) findings: Findings,
    cells: Table,
    /// What cells have elsewhere.
    bytes_of_cells: usize,
    generation: u32,
    channels: [Clock; 2],
    /// How often a pair of places was looked at in vain; none once it was found.
    attempts: FxHashMap<(Side, Side), Option<u16>>,
    /// The code of the dynamic loader.
    loaders: Vec<Range<u64>>,
    most_bytes: usize,
    is_full: bool,
    number: u64,
    /// How often all was forgotten for want of memory.
    forgotten: u64,
    /// Accesses that were not kept because there were too many others to the same bytes.
    left_out: u64,
}

/// What a run has not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Unpredicted {
    /// Pairs of places that were given up: so often no order was found in which they meet.
    pub given_up: u64,
    /// Accesses that were not held against later ones, because there were too many to the same bytes.
    pub left_out: u64,
    /// How often what had been seen was forgotten, for want of memory.
    pub forgotten: u64,
}

/// How often a pair of places is looked at in vain.
const ATTEMPTS: u16 = 256;
/// Accesses between two looks at how much memory there is.
const BETWEEN_MEASUREMENTS: u64 = 1 << 16;

/// What a thread does to memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Touch {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) is_write: bool,
    pub(super) time: u64,
}

/// Looks at accesses of a thread while they are checked.
#[derive(Debug)]
pub(super) struct Watcher<'a> {
    pub(super) prediction: &'a mut Prediction,
    pub(super) thread: ThreadId,
    /// The memory of the lock that it is taking or releasing: what it does there is what these functions
    /// mean.
    pub(super) lock: Option<Range<u64>>,
}

impl Prediction {
    pub(super) fn new(most_bytes: u64) -> Prediction {
        Prediction {
            orders: Reordering::default(),
            findings: Findings::new(0),
            cells: Table::default(),
            bytes_of_cells: 0,
            generation: 0,
            channels: Default::default(),
            attempts: FxHashMap::default(),
            loaders: Vec::new(),
            most_bytes: usize::try_from(most_bytes).unwrap_or(usize::MAX),
            is_full: false,
            number: 0,
            forgotten: 0,
            left_out: 0,
        }
    }

    /// What it could not look at.
    pub(super) fn unpredicted(&self) -> Unpredicted {
        let attempts = self.attempts.values();
        Unpredicted {
            given_up: attempts.filter(|it| **it == Some(ATTEMPTS)).count() as u64,
            left_out: self.left_out,
            forgotten: self.forgotten,
        }
    }

    /// A module of the program. What the loader writes counts as if it had been there before: where it
    /// has looked a function up at its first call, whoever calls it next would have found the same.
    pub(super) fn module(&mut self, module: &Module) {
        let name = module.path.rsplit(|it| *it == b'/').next().unwrap_or(&[]);
        if [&b"ld-linux"[..], b"ld-musl"]
            .iter()
            .any(|it| name.starts_with(it))
        {
            self.loaders
                .push(module.base..module.base.saturating_add(module.size));
        }
    }

    /// A thread starts or ends.
    pub(super) fn thread_event(&mut self, id: ThreadId, event: &ThreadEvent) {
        match event {
            ThreadEvent::Start { parent, .. } => self.orders.start(id, *parent),
            ThreadEvent::End => self.orders.end(id),
            ThreadEvent::HandlerCalled { .. } => self.take_from(id, Channel::Signals),
            _ => {}
        }
    }

    /// Threads synchronise by something else than memory.
    pub(super) fn synchronisation(&mut self, id: ThreadId, event: Synchronisation, time: u64) {
        match event.operation {
            SyncOperation::ThreadCreate => {
                if let Ok(child) = u32::try_from(event.object) {
                    self.orders.create(id, ThreadId(child));
                }
            }
            // The kernel writes the word by which it announces the end.
            SyncOperation::ThreadExit if event.object != 0 => {
                let touch = Touch {
                    address: event.object,
                    size: FUTEX_BYTES,
                    is_write: true,
                    time,
                };
                self.synchronise(id, touch);
            }
            _ => {}
        }
    }

    /// Something goes out through a channel.
    pub(super) fn give(&mut self, id: ThreadId, channel: Channel) {
        let clock = self.orders.tells(id);
        self.channels[channel as usize].join(&clock);
    }

    /// The thread has got something through the channel.
    pub(super) fn take_from(&mut self, id: ThreadId, channel: Channel) {
        let clock = self.channels[channel as usize].clone();
        self.orders.learns(id, &clock);
    }

    /// The memory of a range is other memory now.
    pub(super) fn forget(&mut self, address: u64, size: u64) {
        let end = address.saturating_add(size);
        self.cells.for_each(address & !7, end, |cell, past| {
            let low = address.saturating_sub(cell);
            let part = parts(cell + low, (end - cell).min(8) - low).next();
            past.forget(part.map_or(0, |(_, bytes)| bytes));
        });
    }

    /// An instruction of a thread accesses memory at some place.
    fn instruction(
        &mut self,
        id: ThreadId,
        access: &Access,
        site: SiteId,
        sites: &Sites,
        heap: &mut Heap,
    ) {
        let is_write = access.kind == AccessKind::Write;
        let touch = Touch {
            address: access.address,
            size: u64::from(access.size),
            is_write,
            time: access.time,
        };
        let is_atomic = access.flags.contains(AccessFlags::ATOMIC);
        if is_write && self.loaders.iter().any(|it| it.contains(&access.pc)) {
            self.forget(touch.address, touch.size);
        } else if !is_atomic {
            self.access(id, touch, site, sites, heap);
        } else if !is_write || !access.flags.contains(AccessFlags::FAILED_CAS) {
            self.synchronise(id, touch);
        }
    }

    /// A thread accesses memory at some place.
    fn access(&mut self, id: ThreadId, touch: Touch, site: SiteId, sites: &Sites, heap: &mut Heap) {
        let Some(now) = self.begin(id) else {
            return;
        };
        let mut stretch = self.orders.stretch(id);
        if !self.is_settled(now, stretch, touch) {
            self.hold_against_earlier(now, touch, site, sites, heap);
            self.take(now, touch);
            stretch = self.orders.stretch(id);
        }
        for (cell, bytes) in parts(touch.address, touch.size) {
            let past = self.cells.get_or_add(cell);
            let before = past.bytes();
            if touch.is_write {
                past.is_written(now, bytes);
            }
            let new = Earlier::new(now, stretch, bytes, touch.is_write, site);
            self.left_out += u64::from(!past.keep(new));
            self.bytes_of_cells += past.bytes();
            self.bytes_of_cells -= before;
        }
        self.orders.is_done(id);
    }

    /// Whether the thread has done the same in this stretch, and nobody anything since: then nothing is
    /// met or learnt by it.
    #[inline]
    fn is_settled(&mut self, now: Moment, stretch: u32, touch: Touch) -> bool {
        parts(touch.address, touch.size).all(|(cell, bytes)| {
            let past = self.cells.get(cell);
            past.is_some_and(|past| past.is_settled((now.thread, stretch), touch.is_write, bytes))
        })
    }

    /// Looks at all that another thread did which the access may race with.
    fn hold_against_earlier(
        &mut self,
        now: Moment,
        touch: Touch,
        site: SiteId,
        sites: &Sites,
        heap: &mut Heap,
    ) {
        let stretch = self.orders.stretch(now.thread);
        let mut candidates: SmallVec<[(u64, [Earlier; 2]); 4]> = SmallVec::new();
        for (cell, bytes) in parts(touch.address, touch.size) {
            if let Some(past) = self.cells.get(cell) {
                let new = Earlier::new(now, stretch, bytes, touch.is_write, site);
                let met = past.met_by(&new);
                let met = met.filter(|it| !self.orders.precedes(it.moment, now));
                candidates.extend(met.map(|it| (cell, [it, new])));
            }
        }
        for (cell, both) in candidates {
            self.look_at(cell, both, touch.time, sites, heap);
        }
    }

    /// A thread accesses memory in a way that is no part of a race.
    pub(super) fn synchronise(&mut self, id: ThreadId, touch: Touch) {
        let Some(now) = self.begin(id) else {
            return;
        };
        self.take(now, touch);
        if touch.is_write {
            for (cell, bytes) in parts(touch.address, touch.size) {
                let past = self.cells.get_or_add(cell);
                past.is_written(now, bytes);
                past.is_disturbed();
            }
        }
        self.orders.is_done(id);
    }

    /// Where the thread is, unless it is alone: then nothing can be turned round.
    #[inline]
    fn begin(&mut self, id: ThreadId) -> Option<Moment> {
        if self.orders.is_alone() {
            return None;
        }
        self.number += 1;
        let now = self.orders.next(id);
        if self.generation != self.orders.generation() {
            self.generation = self.orders.generation();
            self.cells = Table::default();
            self.bytes_of_cells = 0;
        }
        if self.number.is_multiple_of(BETWEEN_MEASUREMENTS) {
            let cells = self.cells.bytes() + self.bytes_of_cells;
            self.is_full = cells + self.orders.bytes() + self.findings.bytes() > self.most_bytes;
        }
        Some(now)
    }

    /// The thread comes behind what has written what it reads.
    fn take(&mut self, now: Moment, touch: Touch) {
        if touch.is_write {
            return;
        }
        let id = now.thread;
        let mut writers: SmallVec<[Moment; 4]> = SmallVec::new();
        for (cell, bytes) in parts(touch.address, touch.size) {
            if let Some(past) = self.cells.get(cell) {
                writers.extend(past.writers(bytes).filter(|it| it.thread != id));
            }
        }
        if !writers.is_empty() {
            self.orders.learns_of(id, writers.into_iter());
        }
    }

    /// May two accesses stand beside each other?
    fn look_at(
        &mut self,
        cell: u64,
        both: [Earlier; 2],
        time: u64,
        sites: &Sites,
        heap: &mut Heap,
    ) {
        let sides = both.map(|it| Side {
            site: it.site,
            is_write: it.is_write,
        });
        let attempts = self.attempts.entry(sides.into()).or_insert(Some(0));
        let Some(in_vain) = attempts.filter(|it| *it < ATTEMPTS) else {
            return;
        };
        let moments = both.map(|it| it.moment);
        if !self.orders.may_meet(&moments) {
            *attempts = Some(in_vain + 1);
            return;
        }
        *attempts = None;
        let bytes = both[0].bytes & both[1].bytes;
        let [first, second] = both.map(|it| Record::new(Epoch::NONE, bytes, it.is_write, it.site));
        let meeting = Meeting {
            cell,
            first,
            first_thread: both[0].moment.thread,
            second,
            second_thread: both[1].moment.thread,
            clock: &VectorClock::default(),
            time,
            moment: Number {
                generation: 0,
                number: self.number,
            },
        };
        let orders = &self.orders;
        self.findings.add(&meeting, sites, || Circumstances {
            block: heap.tell(meeting.suspect().address()),
            locks: moments.map(|moment| Some(orders.locks_at(moment))),
        });
    }

    /// Whether what came before has grown too large, or will not be needed.
    pub(super) fn is_due_to_forget(&mut self) -> bool {
        let is_full = std::mem::take(&mut self.is_full);
        self.forgotten += u64::from(is_full);
        is_full || self.orders.is_due_to_forget()
    }
}

impl Watch for Watcher<'_> {
    #[inline]
    fn looks(&self) -> bool {
        !self.prediction.orders.is_alone()
    }

    #[inline]
    fn access(&mut self, access: &Access, site: SiteId, sites: &Sites, heap: &mut Heap) {
        let is_of_lock = |it: &Range<u64>| it.contains(&access.address);
        if !self.lock.as_ref().is_some_and(is_of_lock) {
            let id = self.thread;
            self.prediction.instruction(id, access, site, sites, heap);
        }
    }
}

#[cfg(test)]
mod tests;
