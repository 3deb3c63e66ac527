//! What threads know of one another by other means than locks.

use std::sync::Arc;

use unspool_events::ThreadId;

/// How far each thread had come where this was taken. Copies share their memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Clock(Arc<Vec<u32>>);

impl Clock {
    fn get(&self, thread: ThreadId) -> u32 {
        self.0.get(thread.0 as usize).copied().unwrap_or(0)
    }

    /// The thread goes on: what it does from now on is later than what it has told.
    pub(super) fn advance(&mut self, thread: ThreadId) {
        let times = Arc::make_mut(&mut self.0);
        let place = thread.0 as usize;
        if times.len() <= place {
            times.resize(place + 1, 0);
        }
        times[place] += 1;
    }

    /// Learns what another one says.
    pub(super) fn join(&mut self, other: &Clock) {
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
    pub(super) fn precedes(&self, thread: ThreadId, other: &Clock) -> bool {
        self.get(thread) <= other.get(thread)
    }
}
