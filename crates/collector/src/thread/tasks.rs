//! Tasks, where the runtime tells which one starts, goes on or ends.

use std::ffi::c_void;

use super::{Kind, Thread};

impl Thread {
    /// The thread starts a task, or goes on with one.
    pub(crate) fn begin_task(&mut self, tag: *const c_void, address: u64, now: u64) {
        if self.frames.iter().any(|frame| frame.tag == tag) {
            return;
        }
        let depth = self.frames.len();
        self.enter(Kind::Task, address, 0, now);
        if let Some(frame) = self.frames.get_mut(depth) {
            frame.tag = tag;
        }
    }

    /// A task ends.
    pub(crate) fn end_task(&mut self, tag: *const c_void, now: u64) {
        if let Some(depth) = self.frames.iter().rposition(|frame| frame.tag == tag) {
            self.leave_to(depth, now);
        }
    }

    /// How many constructs the thread is in: to come back to by [`Thread::return_to`].
    pub(crate) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Leaves everything entered since.
    pub(crate) fn return_to(&mut self, depth: usize, now: u64) {
        self.leave_to(depth, now);
    }
}
