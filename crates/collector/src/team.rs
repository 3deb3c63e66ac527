//! The threads of one parallel region, from its fork to its join.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use unspool_openmp_record::layout::construct;

use crate::arena::Fields;
use crate::construct::Node;
use crate::places;

/// One passage through a parallel region.
#[derive(Debug)]
pub(crate) struct Team {
    /// Where the region is in the code.
    pub(crate) address: u64,
    /// The function that its threads execute, or 0 where it is not known.
    pub(crate) body: u64,
    /// When it was forked.
    pub(crate) fork: u64,
    /// The construct of the thread that forked it.
    pub(crate) region: u64,
    /// Whether places are to be taken in order of thread numbers.
    pub(crate) is_outermost: bool,
    /// How many threads it has, once one of them has said so.
    size: AtomicU64,
    /// Arrivals at barriers, all together.
    arrivals: AtomicU64,
    members: Vec<Member>,
}

/// What a thread leaves behind when it arrives at the join.
#[derive(Debug, Default)]
struct Member {
    record: AtomicPtr<Node>,
    arrival: AtomicU64,
    since: AtomicU64,
    waited: AtomicU64,
    place: AtomicU64,
}

/// A member that took no place.
const NO_PLACE: u64 = u64::MAX;

impl Team {
    /// A team of up to so many threads.
    pub(crate) fn new(limit: usize) -> Team {
        let mut members = Vec::new();
        members.resize_with(limit.max(1), Member::default);
        Team {
            address: 0,
            body: 0,
            fork: 0,
            region: 0,
            is_outermost: true,
            size: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            members,
        }
    }

    /// How many threads there is room for.
    pub(crate) fn limit(&self) -> usize {
        self.members.len()
    }

    /// Makes it ready for another passage.
    pub(crate) fn start(&mut self, place: (u64, u64), region: u64, fork: u64, is_outermost: bool) {
        (self.address, self.body) = place;
        self.region = region;
        self.fork = fork;
        self.is_outermost = is_outermost;
        self.size.store(0, Ordering::Relaxed);
        self.arrivals.store(0, Ordering::Relaxed);
        for member in &mut self.members {
            *member.record.get_mut() = std::ptr::null_mut();
            *member.place.get_mut() = NO_PLACE;
        }
    }

    /// A thread has started: how many there are.
    pub(crate) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Relaxed);
    }

    /// Takes a place for a worker.
    pub(crate) fn take_place(&self, index: usize) -> u64 {
        let wanted = if self.is_outermost { index as u64 } else { 0 };
        let place = places::take(wanted);
        match self.members.get(index) {
            Some(member) => member.place.store(place, Ordering::Relaxed),
            None => places::give_back(place),
        }
        place
    }

    /// A thread arrives at a barrier within the region; says whether it is the last.
    pub(crate) fn arrive_at_barrier(&self) -> bool {
        let before = self.arrivals.fetch_add(1, Ordering::Relaxed);
        (before + 1).is_multiple_of(self.size.load(Ordering::Relaxed).max(1))
    }

    /// A thread arrives at the join.
    pub(crate) fn arrive(&self, index: usize, node: *mut Node, now: u64, since: u64, waited: u64) {
        let Some(member) = self.members.get(index) else {
            return;
        };
        member.arrival.store(now, Ordering::Relaxed);
        member.since.store(since, Ordering::Relaxed);
        member.waited.store(waited, Ordering::Relaxed);
        member.record.store(node, Ordering::Release);
    }

    /// When the thread that forked the region arrived at its join.
    pub(crate) fn first_arrival(&self) -> u64 {
        match self.members.first() {
            Some(member) if !member.record.load(Ordering::Relaxed).is_null() => {
                member.arrival.load(Ordering::Relaxed)
            }
            _ => self.fork,
        }
    }

    /// All have arrived: books what each has waited, and gives places back.
    pub(crate) fn join(&self, now: u64) {
        let mut last: Option<(&Member, Fields, u64)> = None;
        for member in &self.members {
            let place = member.place.load(Ordering::Relaxed);
            if place != NO_PLACE {
                places::give_back(place);
            }
            // SAFETY: nodes are never freed.
            let Some(node) = (unsafe { member.record.load(Ordering::Acquire).as_ref() }) else {
                continue;
            };
            let record = node.record;
            let arrival = member.arrival.load(Ordering::Relaxed);
            let wait = now.saturating_sub(arrival);
            record.add_shared(construct::WAIT, wait);
            record.raise_shared(construct::WAIT_LONGEST, wait);
            if last.as_ref().is_none_or(|(_, _, latest)| arrival > *latest) {
                last = Some((member, record, arrival));
            }
        }
        if let Some((member, record, arrival)) = last {
            let since = member.since.load(Ordering::Relaxed);
            record.add_shared(construct::LAST_ARRIVALS, 1);
            record.add_shared(construct::PATH_TOTAL, arrival.saturating_sub(since));
            record.add_shared(construct::PATH_WAIT, member.waited.load(Ordering::Relaxed));
        }
    }
}
