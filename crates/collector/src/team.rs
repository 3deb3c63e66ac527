//! The threads of one parallel region, from its fork to its join.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use unspool_openmp_record::layout::construct;

use crate::arena::Fields;
use crate::construct::Node;
use crate::task_chains::TaskChains;
use crate::thread_slots;

/// The code of a parallel region.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RegionCode {
    /// Where the region is forked.
    pub(crate) address: u64,
    /// The function that its threads execute, or 0 where it is not known.
    pub(crate) body: u64,
}

/// One passage through a parallel region. What all its threads read is apart from what they
/// write.
#[derive(Debug)]
pub(crate) struct Team {
    /// Which code it is.
    pub(crate) code: RegionCode,
    /// When it was forked.
    pub(crate) fork: u64,
    /// The construct of the thread that forked it.
    pub(crate) region: u64,
    /// Whether its threads are to have the slots of their numbers.
    is_outermost: bool,
    /// How many of the first slots were taken for its threads at the fork, or 0.
    reserved: usize,
    /// How many of the reserved slots its threads have.
    used: AtomicU64,
    /// Which passage this is, to tell its arrivals from those of passages before.
    passage: u64,
    /// How many threads it has, once one of them has said so.
    size: AtomicU64,
    members: Vec<Member>,
    barrier: Barrier,
    /// Its tasks that depend on each other.
    pub(crate) chains: TaskChains,
}

/// The barriers within a region, one after the other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Barrier {
    /// Arrivals, of all barriers together.
    arrivals: AtomicU64,
    /// When a thread arrived last.
    latest: AtomicU64,
    /// When the last of all threads arrived, at the barrier at which all have most recently, or a
    /// task ended since then.
    complete: AtomicU64,
    /// By how much the last to arrive was later than the one before, for lack of a processor.
    held_up: AtomicU64,
}

/// How a thread arrives at the join. Times are ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) now: u64,
    /// When it left the barrier or fork before.
    pub(crate) since: u64,
    /// How long it has waited since then.
    pub(crate) waited: u64,
    /// How long it has been without a processor since then.
    pub(crate) without_processor: u64,
}

/// What a thread leaves behind when it arrives at the join.
#[derive(Debug)]
#[repr(align(64))]
struct Member {
    passage: AtomicU64,
    record: AtomicPtr<Node>,
    arrival: AtomicU64,
    since: AtomicU64,
    waited: AtomicU64,
    without_processor: AtomicU64,
    slot: AtomicU64,
}

/// A member that took no slot of its own.
const NO_SLOT: u64 = u64::MAX;

impl Team {
    /// A team of up to so many threads.
    pub(crate) fn new(limit: usize) -> Team {
        let mut members = Vec::new();
        members.resize_with(limit.max(1), || Member {
            passage: AtomicU64::new(0),
            record: AtomicPtr::new(std::ptr::null_mut()),
            arrival: AtomicU64::new(0),
            since: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            without_processor: AtomicU64::new(0),
            slot: AtomicU64::new(NO_SLOT),
        });
        Team {
            code: RegionCode::default(),
            fork: 0,
            region: 0,
            is_outermost: true,
            reserved: 0,
            used: AtomicU64::new(0),
            passage: 0,
            size: AtomicU64::new(0),
            members,
            barrier: Barrier::default(),
            chains: TaskChains::default(),
        }
    }

    /// How many threads there is room for.
    pub(crate) fn limit(&self) -> usize {
        self.members.len()
    }

    /// Makes it ready for another passage, of up to so many threads.
    pub(crate) fn start(
        &mut self,
        code: RegionCode,
        region: u64,
        fork: u64,
        limit: usize,
        is_outermost: bool,
    ) {
        self.code = code;
        self.region = region;
        self.fork = fork;
        self.is_outermost = is_outermost;
        self.passage += 1;
        *self.size.get_mut() = 0;
        *self.used.get_mut() = 0;
        self.barrier = Barrier::default();
        self.chains.clear();
        self.reserved = match is_outermost && thread_slots::take_first(limit) {
            true => limit,
            false => 0,
        };
    }

    /// A thread has started: how many there are.
    #[inline]
    pub(crate) fn set_size(&self, index: usize, size: usize) {
        if self.size.load(Ordering::Relaxed) != size as u64 {
            self.size.store(size as u64, Ordering::Relaxed);
        }
        if index == 0 && self.reserved > 0 {
            let used = size.clamp(1, self.reserved);
            thread_slots::use_first(used, self.reserved);
            self.used.store(used as u64, Ordering::Relaxed);
        }
    }

    /// Takes the slot of a worker.
    #[inline]
    pub(crate) fn take_slot(&self, index: usize) -> u64 {
        if index < self.reserved {
            return index as u64;
        }
        let wanted = if self.is_outermost { index as u64 } else { 0 };
        let slot = thread_slots::take(wanted);
        match self.members.get(index) {
            Some(member) => member.slot.store(slot, Ordering::Relaxed),
            None => thread_slots::give_back(slot),
        }
        slot
    }

    /// A thread arrives at a barrier within the region, after so long without a processor; says
    /// whether it is the last.
    #[inline]
    pub(crate) fn arrive_at_barrier(&self, now: u64, without_processor: u64) -> bool {
        let barrier = &self.barrier;
        let size = self.size.load(Ordering::Relaxed);
        // Alone, it is the last; and two is the number that needs no division.
        let is_last = match size {
            0 | 1 => true,
            2 => barrier.arrivals.fetch_add(1, Ordering::Relaxed) & 1 == 1,
            _ => (barrier.arrivals.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(size),
        };
        if is_last {
            let before = barrier.latest.load(Ordering::Relaxed);
            let held_up = without_processor.min(now.saturating_sub(before));
            barrier.held_up.store(held_up, Ordering::Relaxed);
            barrier.complete.store(now, Ordering::Relaxed);
        }
        barrier.latest.store(now, Ordering::Relaxed);
        is_last
    }

    /// A task has ended, for which threads may wait at a barrier. What is told is right within the
    /// time for which it is not worth to tell it, so that the line stays with those that read it.
    #[inline]
    pub(crate) fn task_ended(&self, now: u64, worth_telling: u64) {
        let before = self.barrier.complete.load(Ordering::Relaxed);
        if before != 0 && now.saturating_sub(before) >= worth_telling {
            self.barrier.complete.store(now, Ordering::Relaxed);
        }
    }

    /// For a thread that leaves a barrier: when the last one arrived there, or the last task ended,
    /// and how much earlier the last one would have arrived, had it had a processor all the time.
    /// Nobody can arrive at the next barrier
    /// as the last before this thread does.
    #[inline]
    pub(crate) fn completion(&self) -> Option<(u64, u64)> {
        let complete = self.barrier.complete.load(Ordering::Relaxed);
        (complete != 0).then(|| (complete, self.barrier.held_up.load(Ordering::Relaxed)))
    }

    /// A thread arrives at the join.
    pub(crate) fn arrive(&self, index: usize, node: *mut Node, arrival: Arrival) {
        let Some(member) = self.members.get(index) else {
            return;
        };
        member.arrival.store(arrival.now, Ordering::Relaxed);
        member.since.store(arrival.since, Ordering::Relaxed);
        member.waited.store(arrival.waited, Ordering::Relaxed);
        let without = arrival.without_processor;
        member.without_processor.store(without, Ordering::Relaxed);
        member.record.store(node, Ordering::Relaxed);
        member.passage.store(self.passage, Ordering::Release);
    }

    /// When the thread that forked the region arrived at its join.
    pub(crate) fn first_arrival(&self) -> u64 {
        match self.members.first() {
            Some(member) if member.passage.load(Ordering::Relaxed) == self.passage => {
                member.arrival.load(Ordering::Relaxed)
            }
            _ => self.fork,
        }
    }

    /// All have arrived: books what each has waited, and gives slots back. `late` says how much of
    /// the time since the last arrival the thread that forked the region had no processor.
    pub(crate) fn join(&self, now: u64, late: impl FnOnce(u64) -> u64) {
        match self.used.load(Ordering::Relaxed) {
            // The thread that forked it did not come to work in it.
            0 if self.reserved > 0 => thread_slots::use_first(1, self.reserved),
            0 => {}
            used => thread_slots::give_back_first(used as usize),
        }
        for member in &self.members {
            let slot = member.slot.load(Ordering::Relaxed);
            if slot != NO_SLOT {
                thread_slots::give_back(slot);
                member.slot.store(NO_SLOT, Ordering::Relaxed);
            }
        }
        let Some((last, arrival)) = self
            .arrived()
            .map(|(member, _)| (member, member.arrival.load(Ordering::Relaxed)))
            .max_by_key(|(_, arrival)| *arrival)
        else {
            return;
        };
        // When the last one would have arrived, had all had processors all the time.
        let undelayed = self.arrived().map(|(member, _)| {
            let without = member.without_processor.load(Ordering::Relaxed);
            member
                .arrival
                .load(Ordering::Relaxed)
                .saturating_sub(without)
        });
        let held_up = arrival.saturating_sub(undelayed.max().unwrap_or(arrival));
        let late = late(arrival);
        for (member, record) in self.arrived() {
            let arrived = member.arrival.load(Ordering::Relaxed);
            let wait = now.saturating_sub(arrived);
            record.add(construct::WAIT, wait);
            record.raise(construct::WAIT_LONGEST, wait);
            let for_others = arrival.saturating_sub(arrived).min(held_up);
            let lacking = for_others.saturating_add(late).min(wait);
            record.add(construct::WAIT_FOR_PROCESSOR, lacking);
            if std::ptr::eq(member, last) {
                let since = member.since.load(Ordering::Relaxed);
                record.add(construct::LAST_ARRIVALS, 1);
                record.add(construct::LAST_WAIT, wait);
                record.add(construct::PATH_TOTAL, arrival.saturating_sub(since));
                let waited = member.waited.load(Ordering::Relaxed);
                let without = member.without_processor.load(Ordering::Relaxed);
                record.add(construct::PATH_WAIT, waited + without);
            }
        }
    }

    /// The threads that have arrived at the join, and their parts of the region, whose own threads
    /// wrote what is booked there only before they arrived.
    fn arrived(&self) -> impl Iterator<Item = (&Member, Fields)> {
        self.members.iter().filter_map(|member| {
            if member.passage.load(Ordering::Acquire) != self.passage {
                return None;
            }
            // SAFETY: nodes are never freed.
            let node = unsafe { member.record.load(Ordering::Relaxed).as_ref() }?;
            Some((member, node.record))
        })
    }
}
