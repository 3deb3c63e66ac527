//! How far each thread had come.

use std::sync::Arc;

use unspool_events::ThreadId;

/// How far each thread had come where this was taken. Copies share their memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Clock(Arc<Vec<u32>>);

impl Clock {
    /// How far that thread had come.
    pub(crate) fn get(&self, thread: ThreadId) -> u32 {
        self.0.get(thread.0 as usize).copied().unwrap_or(0)
    }

    /// The thread goes on: what it does from now on is later than what it has told.
    pub(crate) fn advance(&mut self, thread: ThreadId) {
        self.reach(thread, self.get(thread) + 1);
    }

    /// The thread has come so far at least.
    pub(crate) fn reach(&mut self, thread: ThreadId, time: u32) {
        if self.get(thread) >= time {
            return;
        }
        let times = Arc::make_mut(&mut self.0);
        let place = thread.0 as usize;
        if times.len() <= place {
            times.resize(place + 1, 0);
        }
        times[place] = time;
    }

    /// Learns what another one says.
    pub(crate) fn join(&mut self, other: &Clock) {
        if Arc::ptr_eq(&self.0, &other.0) || other.0.is_empty() {
            return;
        }
        let times = Arc::make_mut(&mut self.0);
        if times.len() < other.0.len() {
            times.resize(other.0.len(), 0);
        }
        for (own, other) in times.iter_mut().zip(other.0.iter()) {
            *own = (*own).max(*other);
        }
    }

    /// Whether what this thread did at this clock came before what has another clock.
    pub(crate) fn precedes(&self, thread: ThreadId, other: &Clock) -> bool {
        self.get(thread) <= other.get(thread)
    }

    /// How far each thread had come, by their numbers; those that are not there had done nothing.
    pub(crate) fn times(&self) -> &[u32] {
        &self.0
    }
}
