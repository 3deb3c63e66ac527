//! The threads of one parallel region, from its fork to its join.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use unspool_openmp_record::layout::construct;

use crate::arena::Fields;
use crate::construct::Node;
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
    /// Arrivals at barriers, all together.
    arrivals: Line<AtomicU64>,
}

/// What has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line<T>(T);

/// What a thread leaves behind when it arrives at the join.
#[derive(Debug)]
#[repr(align(64))]
struct Member {
    passage: AtomicU64,
    record: AtomicPtr<Node>,
    arrival: AtomicU64,
    since: AtomicU64,
    waited: AtomicU64,
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
            arrivals: Line::default(),
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
        *self.arrivals.0.get_mut() = 0;
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

    /// A thread arrives at a barrier within the region; says whether it is the last.
    #[inline]
    pub(crate) fn arrive_at_barrier(&self) -> bool {
        let size = self.size.load(Ordering::Relaxed);
        // Alone, it is the last; and two is the number that needs no division.
        match size {
            0 | 1 => true,
            2 => self.arrivals.0.fetch_add(1, Ordering::Relaxed) & 1 == 1,
            _ => (self.arrivals.0.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(size),
        }
    }

    /// A thread arrives at the join.
    pub(crate) fn arrive(&self, index: usize, node: *mut Node, now: u64, since: u64, waited: u64) {
        let Some(member) = self.members.get(index) else {
            return;
        };
        member.arrival.store(now, Ordering::Relaxed);
        member.since.store(since, Ordering::Relaxed);
        member.waited.store(waited, Ordering::Relaxed);
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

    /// All have arrived: books what each has waited, and gives slots back.
    pub(crate) fn join(&self, now: u64) {
        match self.used.load(Ordering::Relaxed) {
            // The thread that forked it did not come to work in it.
            0 if self.reserved > 0 => thread_slots::use_first(1, self.reserved),
            0 => {}
            used => thread_slots::give_back_first(used as usize),
        }
        let mut last: Option<(&Member, Fields, u64)> = None;
        for member in &self.members {
            let slot = member.slot.load(Ordering::Relaxed);
            if slot != NO_SLOT {
                thread_slots::give_back(slot);
                member.slot.store(NO_SLOT, Ordering::Relaxed);
            }
            if member.passage.load(Ordering::Acquire) != self.passage {
                continue;
            }
            // SAFETY: nodes are never freed.
            let Some(node) = (unsafe { member.record.load(Ordering::Relaxed).as_ref() }) else {
                continue;
            };
            // Its own thread writes these fields only before it arrives.
            let record = node.record;
            let arrival = member.arrival.load(Ordering::Relaxed);
            let wait = now.saturating_sub(arrival);
            record.add(construct::WAIT, wait);
            record.raise(construct::WAIT_LONGEST, wait);
            if last.as_ref().is_none_or(|(_, _, latest)| arrival > *latest) {
                last = Some((member, record, arrival));
            }
        }
        if let Some((member, record, arrival)) = last {
            let since = member.since.load(Ordering::Relaxed);
            record.add(construct::LAST_ARRIVALS, 1);
            record.add(construct::LAST_WAIT, now.saturating_sub(arrival));
            record.add(construct::PATH_TOTAL, arrival.saturating_sub(since));
            record.add(construct::PATH_WAIT, member.waited.load(Ordering::Relaxed));
        }
    }
}
