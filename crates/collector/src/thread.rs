//! A thread, and the constructs it is in.

use std::ffi::c_void;

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::{block, construct, frame, process_block, span, stream};

use crate::arena::{self, Fields};
use crate::construct::{Constructs, Key, Node};
use crate::task_chains::RunningTask;
use crate::team::Team;
use crate::thread_slots;

/// One thread of the program. What is needed at every passage stands first, together.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Thread {
    block: Fields,
    frames: Vec<OpenConstruct>,
    /// How many constructs were entered for which there was no frame.
    skipped: usize,
    /// The team it works in.
    pub(crate) team: *const Team,
    /// Its slot among all threads.
    slot: u64,
    wants_spans: bool,
    /// Whether it was the last to arrive at the barrier that it is at.
    is_last: bool,
    /// When it left the last barrier or fork.
    since: u64,
    /// How long it has waited since then.
    waited: u64,
    /// Where it last asked for the number of threads.
    pub(crate) asked_for_size_at: u64,
    /// Since when it has been asking for a mutex, and the construct that it will enter.
    pub(crate) asking: (u64, *mut Node),
    /// Where the program called the runtime, if by a function of this library's that tells more than
    /// OMPT does; 0 otherwise, and once that has been taken into account.
    pub(crate) called_from: u64,
    /// How many tasks it was given room for, and how long that of the last one took, in ticks, if
    /// that was timed.
    allocations: u32,
    allocation: Option<u64>,
    /// Its number in the team.
    index: usize,
    number: u64,
    constructs: Constructs,
    spans: Option<Fields>,
    /// What stands for regions that it forked and will join by another call, the innermost last.
    pub(crate) started: Vec<*mut c_void>,
    /// Teams of regions that it forked before.
    spare_teams: Vec<*mut Team>,
    /// The region at whose join it waits.
    pending: Option<Pending>,
    /// When it last read both clocks.
    clocks_read: u64,
    /// What it last read of its processor time.
    reading: processor::LastReading,
    /// How long it was without a processor, while it worked, since it left the last barrier or
    /// fork.
    without_processor: u64,
    /// How many tasks it has begun.
    tasks: u64,
}

/// A construct that the thread is in.
#[derive(Debug)]
struct OpenConstruct {
    node: *mut Node,
    /// For a region: whether the thread has asked for its number, and so may divide work.
    divides: bool,
    /// For a region: what the thread was in before.
    outer: (*const Team, usize),
    /// For a task: which one.
    tag: *const c_void,
    /// For a region: whether the thread had arrived at its join before.
    resumed: bool,
    /// For a task: its number among those of the thread.
    task: u64,
    /// For a task that depends on others, or on which others may: what is known of that.
    running: Option<Box<RunningTask>>,
}

/// A region at whose join a thread has arrived. It may still be given tasks to execute.
#[derive(Debug, Clone, Copy)]
struct Pending {
    team: *const Team,
    index: usize,
    node: *mut Node,
    arrival: u64,
}

impl Thread {
    fn top(&self) -> *mut Node {
        self.frames
            .last()
            .map_or(std::ptr::null_mut(), |frame| frame.node)
    }

    fn top_kind(&self) -> Option<ConstructKind> {
        // SAFETY: nodes are never freed.
        unsafe { self.top().as_ref() }.map(|node| node.key.kind)
    }

    /// Where the program called the runtime, which has this address for its caller's. What it calls
    /// from there on, as a task that is executed at once does, has callers of its own.
    pub(crate) fn caller_or(&mut self, told: u64) -> u64 {
        match std::mem::take(&mut self.called_from) {
            0 => told,
            caller => caller,
        }
    }

    /// Whether the innermost construct is of this kind.
    pub(crate) fn is_in(&self, kind: ConstructKind) -> bool {
        self.top_kind() == Some(kind)
    }

    /// Whether the thread is in no construct: a worker between regions.
    pub(crate) fn is_outside(&self) -> bool {
        self.frames.is_empty()
    }

    /// A thread that is no worker uses OpenMP: from now on it is seen.
    fn begin_serial(&mut self, now: u64) {
        self.slot = thread_slots::take(0);
        let key = self.key(ConstructKind::Serial, 0, 0);
        self.push(key, std::ptr::null_mut(), now);
    }

    fn key(&self, kind: ConstructKind, address: u64, detail: u64) -> Key {
        Key {
            kind,
            address,
            detail,
            slot: self.slot as u32,
        }
    }

    /// Enters a construct.
    #[inline]
    pub(crate) fn enter(&mut self, kind: ConstructKind, address: u64, detail: u64, now: u64) {
        let node = self.find(kind, address, detail, now);
        self.enter_found(node, now);
    }

    /// The construct that [`Thread::enter_found`] would enter here, or null where there is no
    /// room: what can be done before a thread waits need not be done while it holds what
    /// others wait for.
    #[inline]
    pub(crate) fn find(
        &mut self,
        kind: ConstructKind,
        address: u64,
        detail: u64,
        now: u64,
    ) -> *mut Node {
        if self.frames.is_empty() && kind != ConstructKind::Serial {
            self.begin_serial(now);
        }
        self.look_at_processor(now, self.at_work());
        let key = self.key(kind, address, detail);
        let parent = self.top();
        let parent = match kind {
            // Tasks start tasks: what is in the same construct is counted together,
            // however deep.
            ConstructKind::Task
            | ConstructKind::TaskWait
            | ConstructKind::TaskGroup
            | ConstructKind::TaskLoop => self.same_above(key).unwrap_or(parent),
            _ => parent,
        };
        self.node(key, parent, now)
    }

    /// The construct that [`Thread::find`] would find, if it is not new and no time of it is
    /// wanted where it is only passed.
    #[inline]
    pub(crate) fn known(
        &mut self,
        kind: ConstructKind,
        address: u64,
        detail: u64,
    ) -> Option<*mut Node> {
        if self.frames.is_empty() || self.wants_spans {
            return None;
        }
        let key = self.key(kind, address, detail);
        self.constructs.known(self.top(), key)
    }

    /// Enters a construct that was found before.
    #[inline]
    pub(crate) fn enter_found(&mut self, node: *mut Node, now: u64) {
        match node.is_null() {
            true => self.skipped += 1,
            false => self.open(node, now),
        }
    }

    /// The innermost construct, a loop that was just entered, has so many iterations for all
    /// threads (0 where that is not known), and this schedule.
    #[inline]
    pub(crate) fn describe_loop(&mut self, iterations: u64, schedule: u64) {
        if self.skipped > 0 {
            return;
        }
        if let Some(inner) = self.frames.last() {
            // SAFETY: nodes are never freed.
            let record = unsafe { &*inner.node }.record;
            record.add(construct::ITERATIONS, iterations);
            record.set(construct::SCHEDULE, schedule);
        }
    }

    /// The parent of a construct of this key that the thread is in already.
    fn same_above(&self, key: Key) -> Option<*mut Node> {
        let mut at = self.top();
        // SAFETY: nodes are never freed.
        while let Some(node) = unsafe { at.as_ref() } {
            if node.key == key {
                return Some(node.parent);
            }
            if node.key.kind == ConstructKind::Parallel {
                break;
            }
            at = node.parent;
        }
        None
    }

    #[inline]
    fn push(&mut self, key: Key, parent: *mut Node, now: u64) {
        let node = self.node(key, parent, now);
        self.enter_found(node, now);
    }

    #[inline]
    fn node(&mut self, key: Key, parent: *mut Node, now: u64) -> *mut Node {
        if self.frames.len() >= frame::IN_BLOCK {
            self.count(process_block::TOO_DEEP);
            return std::ptr::null_mut();
        }
        self.constructs
            .find(self.number, parent, key, now)
            .unwrap_or(std::ptr::null_mut())
    }

    /// Opens a frame for a construct; there must be room.
    #[inline]
    fn open(&mut self, node: *mut Node, now: u64) {
        let depth = self.frames.len();
        // SAFETY: nodes are never freed.
        let construct = unsafe { &*node };
        let open = self.frame(depth);
        open.set(frame::CONSTRUCT, construct.number);
        open.set(frame::BEGIN, now);
        open.set(frame::NESTED, 0);
        open.set(frame::WAITED, 0);
        self.block.set(block::USED, depth as u64 + 1);
        construct.record.set(construct::LAST, now);
        self.frames.push(OpenConstruct {
            node,
            divides: false,
            outer: (std::ptr::null(), 0),
            tag: std::ptr::null(),
            resumed: false,
            task: 0,
            running: None,
        });
    }

    fn frame(&self, depth: usize) -> Fields {
        self.block.at(block::CONTENT + depth * frame::BYTES)
    }

    #[cold]
    fn count(&self, what: usize) {
        if let Some(process) = arena::process_block() {
            process.add_shared(what, 1);
        }
    }

    /// Leaves the innermost construct.
    #[inline]
    pub(crate) fn leave(&mut self, now: u64) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        self.look_at_processor(now, self.at_work());
        let Some(left) = self.frames.pop() else {
            self.count(process_block::UNMATCHED);
            return;
        };
        let depth = self.frames.len();
        let open = self.frame(depth);
        let begin = open.get(frame::BEGIN);
        let waited = open.get(frame::WAITED);
        let total = now.saturating_sub(begin);
        let own = total
            .saturating_sub(open.get(frame::NESTED))
            .saturating_sub(waited);
        self.block.set(block::USED, depth as u64);
        // SAFETY: nodes are never freed.
        let node = unsafe { &*left.node };
        let record = &node.record;
        record.add(construct::COUNT, 1);
        record.add(construct::TOTAL, total);
        record.add(construct::OWN, own);
        record.raise(construct::LONGEST, total);
        record.raise(construct::OWN_LONGEST, own);
        if depth > 0 {
            self.frame(depth - 1).add(frame::NESTED, total);
        }
        match node.key.kind {
            ConstructKind::TaskWait | ConstructKind::TaskGroup => self.waited += own,
            ConstructKind::Barrier | ConstructKind::ImplicitBarrier => {
                if std::mem::take(&mut self.is_last) {
                    record.add(construct::LAST_WAIT, own);
                }
                let lacking = self.waited_for_processor(own, now);
                record.add(construct::WAIT_FOR_PROCESSOR, lacking);
                self.synchronised(now);
            }
            _ => {}
        }
        if self.wants_spans {
            self.write_span(node.number, begin, now, waited);
        }
    }

    /// Leaves constructs up to and with the innermost of this kind in the current region.
    pub(crate) fn leave_through(&mut self, kind: ConstructKind, now: u64) {
        let mut depth = self.frames.len();
        while depth > 0 {
            depth -= 1;
            // SAFETY: nodes are never freed.
            let found = unsafe { &*self.frames[depth].node }.key.kind;
            if found == kind {
                self.leave_to(depth, now);
                return;
            }
            if matches!(
                found,
                ConstructKind::Parallel | ConstructKind::Task | ConstructKind::Serial
            ) {
                break;
            }
        }
        self.count(process_block::UNMATCHED);
    }

    fn leave_to(&mut self, depth: usize, now: u64) {
        self.skipped = 0;
        while self.frames.len() > depth {
            self.leave(now);
        }
    }

    /// The innermost construct has waited before its block.
    #[inline]
    pub(crate) fn wait(&mut self, from: u64, to: u64) {
        let ticks = to.saturating_sub(from);
        self.look_at_processor(to, processor::Until::Wait);
        self.waited += ticks;
        let Some(inner) = self.frames.last() else {
            return;
        };
        if self.skipped > 0 {
            return;
        }
        self.frame(self.frames.len() - 1).add(frame::WAITED, ticks);
        // SAFETY: nodes are never freed.
        let record = unsafe { &*inner.node }.record;
        record.add(construct::WAIT, ticks);
        record.raise(construct::WAIT_LONGEST, ticks);
    }

    /// A construct that is nothing but waiting, and was found before.
    pub(crate) fn only_wait(&mut self, node: *mut Node, from: u64, to: u64) {
        // SAFETY: nodes are never freed.
        let Some(node) = (unsafe { node.as_ref() }) else {
            return;
        };
        let waited = to.saturating_sub(from);
        self.look_at_processor(to, processor::Until::Wait);
        self.waited += waited;
        let record = &node.record;
        record.set(construct::LAST, from);
        record.add(construct::COUNT, 1);
        record.add(construct::TOTAL, waited);
        record.raise(construct::LONGEST, waited);
        record.add(construct::WAIT, waited);
        record.raise(construct::WAIT_LONGEST, waited);
        if let Some(outer) = self.frames.len().checked_sub(1) {
            self.frame(outer).add(frame::NESTED, waited);
        }
        if self.wants_spans {
            self.write_span(node.number, from, to, waited);
        }
    }

    /// A passage through a construct that is nothing but waiting, in which there was nothing
    /// to wait for.
    #[inline]
    pub(crate) fn pass(&mut self, node: *mut Node) {
        // SAFETY: nodes are never freed.
        if let Some(node) = unsafe { node.as_ref() } {
            node.record.add(construct::COUNT, 1);
        }
    }

    /// The innermost construct, a barrier, is arrived at.
    pub(crate) fn arrive_at_barrier(&mut self, now: u64) {
        // SAFETY: the team lives until all its threads have arrived at its join.
        let Some(team) = (unsafe { self.team.as_ref() }) else {
            return;
        };
        self.is_last = team.arrive_at_barrier(now, self.without_processor);
        if self.is_last {
            self.arrive_last(now);
        }
    }

    /// The innermost construct, a barrier, is arrived at after all other threads have: the
    /// critical path leads through this one.
    pub(crate) fn arrive_last(&mut self, now: u64) {
        if let Some(inner) = self.frames.last() {
            // SAFETY: nodes are never freed.
            let record = unsafe { &*inner.node }.record;
            record.add(construct::LAST_ARRIVALS, 1);
            record.add(construct::PATH_TOTAL, now.saturating_sub(self.since));
            record.add(construct::PATH_WAIT, self.waited + self.without_processor);
        }
    }

    /// How much of the wait at a barrier that ends now is due to a lack of processors.
    #[inline]
    fn waited_for_processor(&mut self, waited: u64, now: u64) -> u64 {
        // SAFETY: the team lives until all its threads have arrived at its join.
        let Some(team) = (unsafe { self.team.as_ref() }) else {
            return 0;
        };
        let Some((completion, held_up)) = team.completion() else {
            return 0;
        };
        let late = self.late_for_lack_of_processor(completion, now);
        held_up.saturating_add(late).min(waited)
    }

    fn synchronised(&mut self, now: u64) {
        self.since = now;
        self.waited = 0;
        self.without_processor = 0;
    }

    /// What the thread is at, for [`Thread::look_at_processor`].
    #[inline]
    fn at_work(&self) -> processor::Until {
        match self.top_kind() {
            Some(kind) if !kind.is_wait() => processor::Until::Work(self.top()),
            _ => processor::Until::Wait,
        }
    }

    fn write_span(&mut self, number: u64, begin: u64, end: u64, wait: u64) {
        let has_room = |fields: &Fields| (fields.get(block::USED) as usize) < span::IN_BLOCK;
        if !self.spans.as_ref().is_some_and(has_room) {
            self.spans = arena::new_block(stream::SPANS, self.number).map(|(_, fields)| fields);
        }
        let Some(fields) = self.spans else { return };
        let index = fields.get(block::USED);
        let record = fields.at(block::CONTENT + index as usize * span::BYTES);
        record.set(span::CONSTRUCT, number);
        record.set(span::BEGIN, begin);
        record.set(span::END, end);
        record.set(span::WAIT, wait);
        fields.set(block::USED, index + 1);
    }
}

mod current;
mod life;
mod processor;
mod regions;
mod runtime_work;
mod segments;
mod tasks;

pub(crate) use life::{Spare, current, forget, note_end, spare, watch_ends};
