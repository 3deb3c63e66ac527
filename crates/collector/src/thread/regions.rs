//! Parallel regions, as their threads see them.

use super::processor::Until;
use super::{ConstructKind, OpenConstruct, Pending, Thread, construct, frame};
use crate::construct::{Key, Node};
use crate::process;
use crate::team::{Arrival, RegionCode, Team};

/// How often both clocks are read, at most: often enough that little is lost where a
/// process ends abruptly, and seldom enough to cost nothing.
const CLOCK_INTERVAL_TICKS: u64 = 1 << 24;

impl Thread {
    /// Forks a region of up to so many threads. The team must be given back to [`Thread::join`].
    pub(crate) fn fork(&mut self, code: RegionCode, limit: usize, now: u64) -> *mut Team {
        if self.frames.is_empty() {
            self.begin_serial(now);
        }
        self.end_open_work(now);
        let key = self.key(ConstructKind::Parallel, code.address, code.body);
        let region = self.constructs.find(self.number, self.top(), key, now);
        // SAFETY: nodes are never freed.
        let region = region.map_or(u64::MAX, |node| unsafe { &*node }.number);
        let spare = self.spare_teams.pop();
        // SAFETY: what is spare came from `Box::into_raw`, and nobody else has it.
        let spare = spare.map(|team| unsafe { Box::from_raw(team) });
        let mut team = match spare {
            Some(team) if team.limit() >= limit => team,
            _ => Box::new(Team::new(limit)),
        };
        team.start(code, region, now, limit, self.team.is_null());
        Box::into_raw(team)
    }

    /// Starts to work in a region, as thread `index` of `size`.
    ///
    /// # Safety
    /// The team must be alive until the thread has arrived at its join.
    pub(crate) unsafe fn begin_region(
        &mut self,
        team: *const Team,
        index: usize,
        size: usize,
        now: u64,
    ) {
        // SAFETY: as the caller promises.
        let team_now = unsafe { &*team };
        team_now.set_size(index, size);
        let parent = self.top();
        let RegionCode { address, body } = team_now.code;
        let (key, parent) = if index == 0 {
            (self.key(ConstructKind::Parallel, address, body), parent)
        } else {
            self.slot = team_now.take_slot(index);
            let key = Key {
                detail: team_now.region,
                ..self.key(ConstructKind::Parallel, address, 0)
            };
            (key, std::ptr::null_mut())
        };
        let depth = self.frames.len();
        self.look_at_processor(now, Until::Wait);
        self.push(key, parent, now);
        let outer = (self.team, self.index);
        self.team = team;
        self.index = index;
        self.pending = None;
        self.since = team_now.fork;
        self.waited = 0;
        self.without_processor = 0;
        let late = self.late_for_lack_of_processor(team_now.fork, now);
        // Where there was no room for the construct, there is no frame either.
        if let Some(inner) = self.frames.get_mut(depth) {
            inner.outer = outer;
            // SAFETY: nodes are never freed.
            let record = unsafe { &*inner.node }.record;
            let startup = now.saturating_sub(team_now.fork);
            record.add(construct::STARTUP, startup);
            record.add(construct::STARTUP_WITHOUT_PROCESSOR, late);
            record.raise(construct::TEAM, size as u64);
            if index == 0 && depth > 0 {
                self.frame(depth - 1).add(frame::NESTED, startup);
            }
        }
    }

    /// Arrives at the join of the region it works in.
    pub(crate) fn end_region(&mut self, now: u64) {
        let Some(depth) = self.region_depth() else {
            return;
        };
        self.leave_to(depth + 1, now);
        let OpenConstruct { node, outer, .. } = self.frames[depth];
        let (team, index) = (self.team, self.index);
        (self.team, self.index) = outer;
        self.leave(now);
        let arrival = Arrival {
            now,
            since: self.since,
            waited: self.waited,
            without_processor: self.without_processor,
        };
        // SAFETY: the team lives until all threads have arrived, which this one does here.
        unsafe { &*team }.arrive(index, node, arrival);
        self.pending = Some(Pending {
            team,
            index,
            node,
            arrival: now,
        });
    }

    /// The thread is given a task: if it waits at a region's join, it works there again.
    pub(super) fn return_to_region(&mut self, now: u64) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        self.look_at_processor(now, Until::Wait);
        let waited = now.saturating_sub(pending.arrival);
        let depth = self.frames.len();
        if let Some(outer) = depth.checked_sub(1) {
            self.frame(outer).add(frame::NESTED, waited);
        }
        // SAFETY: nodes are never freed.
        let record = unsafe { &*pending.node }.record;
        record.add(construct::WAIT, waited);
        record.raise(construct::WAIT_LONGEST, waited);
        // It is the same passage.
        record.add(construct::COUNT, 1_u64.wrapping_neg());
        self.open(pending.node, now);
        let outer = (self.team, self.index);
        (self.team, self.index) = (pending.team, pending.index);
        let frame = &mut self.frames[depth];
        (frame.outer, frame.resumed) = (outer, true);
    }

    /// A task has ended: if the thread was waiting at a region's join, it does so again.
    pub(super) fn arrive_again(&mut self, now: u64) {
        if self.frames.last().is_some_and(|frame| frame.resumed) {
            self.end_region(now);
        }
    }

    /// Joins a region that this thread forked.
    ///
    /// # Safety
    /// `team` must come from [`Thread::fork`] of this thread, and all its threads must have
    /// arrived.
    pub(crate) unsafe fn join(&mut self, team: *mut Team, now: u64) {
        // SAFETY: as the caller promises.
        let joined = unsafe { &*team };
        self.look_at_processor(now, Until::Wait);
        joined.join(now, |last| self.late_for_lack_of_processor(last, now));
        self.pending = None;
        let (address, arrival) = (joined.code.address, joined.first_arrival());
        self.spare_teams.push(team);
        if let Some(depth) = self.frames.len().checked_sub(1) {
            self.frame(depth)
                .add(frame::NESTED, now.saturating_sub(arrival));
        }
        self.synchronised(now);
        if self.team.is_null() && now.wrapping_sub(self.clocks_read) > CLOCK_INTERVAL_TICKS {
            self.clocks_read = now;
            process::note_time();
        }
        self.resume_open_work(address, now);
    }

    /// The function that the threads of the current region execute, or 0.
    pub(crate) fn body(&self) -> u64 {
        // SAFETY: the team lives until all its threads have arrived at its join.
        unsafe { self.team.as_ref() }.map_or(0, |team| team.code.body)
    }

    /// Some code of the program's in the current region, or 0.
    pub(crate) fn region_code(&self) -> u64 {
        // SAFETY: the team lives until all its threads have arrived at its join.
        let code = unsafe { self.team.as_ref() }.map(|team| team.code);
        code.map_or(0, |code| match code.body {
            0 => code.address,
            body => body,
        })
    }

    /// Whether an implicit barrier with this return address is the join of the region that
    /// the thread works in: workers' have none, and the forking thread's is the region's.
    pub(crate) fn joins_at(&self, address: u64) -> bool {
        // SAFETY: the team lives until all its threads have arrived at its join.
        let team = unsafe { self.team.as_ref() };
        team.is_some_and(|team| address == 0 || address == team.code.address)
    }

    /// Whether the thread works in a region under this number, and has not arrived at its
    /// join.
    pub(crate) fn is_at_work_as(&self, index: usize) -> bool {
        !self.team.is_null() && self.index == index
    }

    /// Whether the thread is in a construct of this kind, within the current region.
    pub(crate) fn is_within(&self, kind: ConstructKind) -> bool {
        let start = self.region_depth().unwrap_or(0);
        // SAFETY: nodes are never freed.
        let found = |frame: &OpenConstruct| unsafe { &*frame.node }.key.kind == kind;
        self.frames[start..].iter().any(found)
    }

    /// The depth of the region that the thread works in.
    pub(super) fn region_depth(&self) -> Option<usize> {
        let is_region = |frame: &OpenConstruct| {
            // SAFETY: nodes are never freed.
            let node: &Node = unsafe { &*frame.node };
            node.key.kind == ConstructKind::Parallel
        };
        self.frames.iter().rposition(is_region)
    }
}
