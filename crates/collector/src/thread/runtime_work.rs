//! What the runtime itself does for a thread: fetching iterations, creating tasks.
//!
//! Such a call may take no longer than a clock's reading does, so that one of sixteen is timed.

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::{construct, frame};
use unspool_preload::clock;

use super::Thread;
use crate::construct::Node;

/// One call of so many is timed.
const TIMED: u64 = 16;
/// And of so many tasks of LLVM's. A prime, so that of kinds of tasks in turn none is left out.
const TIMED_ALLOCATION: u32 = 17;
/// What takes longer, in ticks, was no work of the runtime's: the thread was made to wait.
const LONGEST: u64 = 1 << 18;

/// A call that was begun.
#[derive(Debug)]
pub(crate) struct RuntimeCall {
    node: *mut Node,
    timed: Option<Timed>,
}

#[derive(Debug)]
struct Timed {
    began: u64,
    /// How many constructs the thread was in, and what had passed in those nested in the innermost.
    depth: usize,
    nested: u64,
}

impl Thread {
    /// The thread fetches the next part of the loop or of the sections that it is in.
    #[inline]
    pub(crate) fn fetch(&self) -> RuntimeCall {
        let is_shared = matches!(
            self.top_kind(),
            Some(ConstructKind::Loop | ConstructKind::Sections)
        );
        match is_shared && self.skipped == 0 {
            true => self.call_runtime(self.top()),
            false => self.call_runtime(std::ptr::null_mut()),
        }
    }

    /// The thread creates a task.
    #[inline]
    pub(crate) fn create_task(&mut self, address: u64) -> RuntimeCall {
        let node = self.creation_node(address);
        self.call_runtime(node)
    }

    /// The thread is given room for a task, which it creates next: some of these calls are timed.
    #[inline]
    pub(crate) fn allocate_task(&mut self) -> Option<u64> {
        self.allocations = self.allocations.wrapping_add(1);
        self.allocations
            .is_multiple_of(TIMED_ALLOCATION)
            .then(clock::now)
    }

    /// It has been given the room, if the call was timed since then.
    #[inline]
    pub(crate) fn allocated_task(&mut self, began: Option<u64>) {
        self.allocation = began.map(|began| clock::now_behind().saturating_sub(began));
    }

    /// The thread creates the task for which it was given room: what that took counts too, if both
    /// are timed.
    #[inline]
    pub(crate) fn create_allocated_task(&mut self, address: u64) -> RuntimeCall {
        let node = self.creation_node(address);
        let timed = self.allocation.take().map(|ticks| self.timed_since(ticks));
        RuntimeCall { node, timed }
    }

    #[inline]
    fn creation_node(&mut self, address: u64) -> *mut Node {
        let key = self.key(ConstructKind::TaskCreation, address, 0);
        match self.constructs.known(self.top(), key) {
            Some(node) => node,
            None => self.find(ConstructKind::TaskCreation, address, 0, clock::now()),
        }
    }

    /// A timed call that began so many ticks ago.
    fn timed_since(&self, ticks: u64) -> Timed {
        Timed {
            depth: self.frames.len(),
            nested: self.nested(),
            began: clock::now().saturating_sub(ticks),
        }
    }

    #[inline]
    fn call_runtime(&self, node: *mut Node) -> RuntimeCall {
        // SAFETY: nodes are never freed.
        let calls = unsafe { node.as_ref() }.map(|node| node.record.get(construct::RUNTIME_CALLS));
        let timed = calls
            .filter(|calls| calls.is_multiple_of(TIMED))
            .map(|_| self.timed_since(0));
        RuntimeCall { node, timed }
    }

    /// The runtime has returned, and has given or taken a part of the work or not.
    #[inline]
    pub(crate) fn return_from_runtime(&self, call: &RuntimeCall, is_counted: bool) {
        // SAFETY: nodes are never freed.
        let Some(node) = (unsafe { call.node.as_ref() }) else {
            return;
        };
        if is_counted {
            node.record.add(construct::RUNTIME_CALLS, 1);
        }
        if let Some(timed) = &call.timed {
            let mut ticks = clock::now_behind().saturating_sub(timed.began);
            // A task that is executed at once, as it is created, is the program's work.
            if timed.depth == self.frames.len() {
                ticks = ticks.saturating_sub(self.nested().saturating_sub(timed.nested));
            }
            if ticks < LONGEST {
                let ticks = ticks.saturating_sub(clock::reading_ticks());
                node.record.add(construct::RUNTIME_TIMED, 1);
                node.record.add(construct::RUNTIME_TICKS, ticks);
            }
        }
    }

    /// What has passed in constructs nested in the innermost one.
    fn nested(&self) -> u64 {
        match self.frames.len().checked_sub(1) {
            Some(depth) => self.frame(depth).get(frame::NESTED),
            None => 0,
        }
    }
}
