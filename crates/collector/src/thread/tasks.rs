//! Tasks, where the runtime tells which one starts, goes on or ends.

use std::ffi::c_void;

use super::{ConstructKind, Thread, processor, thread_slots};

impl Thread {
    /// The thread starts a task, or goes on with one.
    pub(crate) fn begin_task(&mut self, tag: *const c_void, address: u64, now: u64) {
        if self.frames.iter().any(|frame| frame.tag == tag) {
            return;
        }
        let depth = self.start_task(address, now);
        if let Some(frame) = self.frames.get_mut(depth) {
            frame.tag = tag;
        }
    }

    /// A task ends.
    pub(crate) fn end_task(&mut self, tag: *const c_void, now: u64) {
        if let Some(depth) = self.frames.iter().rposition(|frame| frame.tag == tag) {
            self.finish_task(depth, now);
        }
    }

    /// Enters a task; returns to where [`Thread::finish_task`] has to go back.
    pub(crate) fn start_task(&mut self, address: u64, now: u64) -> usize {
        self.return_to_region(now);
        let depth = self.frames.len();
        match depth {
            // A thread of the runtime's own, which only executes tasks that no thread of a
            // region need wait for: it takes part for as long.
            0 => {
                self.slot = thread_slots::take(0);
                let key = self.key(ConstructKind::Task, address, 0);
                self.push(key, std::ptr::null_mut(), now);
            }
            _ => self.enter(ConstructKind::Task, address, 0, now),
        }
        depth
    }

    /// Leaves a task and all that was entered in it.
    pub(crate) fn finish_task(&mut self, depth: usize, now: u64) {
        self.leave_to(depth, now);
        // SAFETY: the team lives until all its threads have arrived at its join.
        if let Some(team) = unsafe { self.team.as_ref() } {
            team.task_ended(now, processor::LOOK_AFTER_TICKS);
        }
        match depth {
            0 => thread_slots::give_back(self.slot),
            _ => self.arrive_again(now),
        }
    }
}
