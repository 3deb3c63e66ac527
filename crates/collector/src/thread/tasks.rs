//! Tasks, where the runtime tells which one starts, goes on or ends.

use std::ffi::c_void;

use super::{ConstructKind, Thread, construct, processor, thread_slots};
use crate::arena::Fields;
use crate::task_chains::{CreatedTask, Dependence};

/// How long the thread has worked in a construct, less what it was without a processor.
fn worked(record: &Fields) -> u64 {
    let without = record.get(construct::WITHOUT_PROCESSOR);
    record.get(construct::OWN).saturating_sub(without)
}

impl Thread {
    /// The thread starts a task, or goes on with one.
    pub(crate) fn begin_task(
        &mut self,
        tag: *const c_void,
        address: u64,
        created: Option<CreatedTask>,
        now: u64,
    ) {
        if self.frames.iter().any(|frame| frame.tag == tag) {
            return;
        }
        let depth = self.start_task(address, created, now);
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
    pub(crate) fn start_task(
        &mut self,
        address: u64,
        created: Option<CreatedTask>,
        now: u64,
    ) -> usize {
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
        if let Some(frame) = self.frames.get_mut(depth) {
            self.tasks += 1;
            frame.task = self.tasks;
            frame.running = created.map(|created| Box::new(created.begin()));
        }
        depth
    }

    /// The thread creates a task that depends on others. Nothing outside of regions, where tasks are
    /// executed as they are created.
    pub(crate) fn create_dependent_task(
        &self,
        dependences: impl Iterator<Item = (u64, Dependence)>,
    ) -> Option<CreatedTask> {
        /// More tasks than a thread begins.
        const TASKS: u64 = 1 << 40;
        // SAFETY: the team lives until all its threads have arrived at its join.
        let team = unsafe { self.team.as_ref() }?;
        let start = self.region_depth()?;
        let within = self.frames[start..].iter().rev();
        let task = within.map(|frame| frame.task).find(|&task| task != 0);
        let creator = self.number * TASKS + task.unwrap_or(0);
        Some(team.chains.create(creator, dependences))
    }

    /// Leaves a task and all that was entered in it.
    pub(crate) fn finish_task(&mut self, depth: usize, now: u64) {
        let frame = self.frames.get_mut(depth);
        let running = frame.and_then(|frame| {
            // SAFETY: nodes are never freed.
            let record = unsafe { &*frame.node }.record;
            Some((frame.running.take()?, record, worked(&record)))
        });
        self.leave_to(depth, now);
        // SAFETY: the team lives until all its threads have arrived at its join.
        if let Some(team) = unsafe { self.team.as_ref() } {
            if let Some((running, record, before)) = running {
                let own = worked(&record).saturating_sub(before);
                record.add(construct::CHAIN, team.chains.end(&running, own));
            }
            team.task_ended(now, processor::LOOK_AFTER_TICKS);
        }
        match depth {
            0 => thread_slots::give_back(self.slot),
            _ => self.arrive_again(now),
        }
    }
}
