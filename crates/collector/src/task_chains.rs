//! Chains of tasks each of which depends on the one before: what they take, no number of threads makes
//! shorter.
//!
//! A task's chain ends in it: it is as long as the longest chain of those that the task depends on,
//! and what the task itself takes. A region's is the longest of its tasks'. Each task is booked what
//! it has made the region's longer by, so that the sum over all tasks, as they end, is the region's.
//!
//! Which tasks depend on each other follows from the places in memory that they name, and in which
//! order they are created by the same task (OpenMP 5.2, 15.9.5). Those of mutually exclusive sets wait
//! for each other in any order, and count as if in that of their creation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How a task depends on others that name the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dependence {
    /// On those before that write; tasks of this kind do not depend on each other.
    Reads,
    /// On all before.
    Writes,
}

/// What a task that has been created depends on.
#[derive(Debug)]
pub(crate) struct CreatedTask {
    before: Vec<Arc<Ended>>,
    /// The longest chain of others before it, which have ended.
    longest_ended: u64,
    ended: Arc<Ended>,
}

/// A task that is being executed.
#[derive(Debug)]
pub(crate) struct RunningTask {
    /// How long the longest chain of what it depends on is, in ticks.
    before: u64,
    ended: Arc<Ended>,
}

/// How long the chain that ends in a task is, in ticks, once the task has ended; 0 before.
#[derive(Debug, Default)]
struct Ended(AtomicU64);

impl Ended {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Which tasks have named a place.
#[derive(Debug, Default)]
struct Place {
    /// The last that writes.
    writer: Option<Arc<Ended>>,
    /// Those that have read since then, of which it is not known that they have ended.
    readers: Vec<Arc<Ended>>,
    /// The longest chain of the readers that have ended.
    longest_read: u64,
}

impl Place {
    /// Forgets readers that have ended, but for how long their chains are, when there are many.
    fn forget_ended(&mut self) {
        const MANY: usize = 64;
        if self.readers.len() < MANY || !self.readers.len().is_power_of_two() {
            return;
        }
        let longest = &mut self.longest_read;
        self.readers.retain(|reader| {
            let chain = reader.get();
            *longest = chain.max(*longest);
            chain == 0
        });
    }
}

/// The chains of one passage through a region.
#[derive(Debug, Default)]
pub(crate) struct TaskChains {
    /// By the task that creates others, and the place that those name.
    places: Mutex<BTreeMap<(u64, u64), Place>>,
    longest: AtomicU64,
}

impl TaskChains {
    /// Forgets all, for another passage.
    pub(crate) fn clear(&mut self) {
        *self.longest.get_mut() = 0;
        let places = self.places.get_mut();
        places.unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// A task is created by `creator`, and depends on others as it names places.
    pub(crate) fn create(
        &self,
        creator: u64,
        dependences: impl Iterator<Item = (u64, Dependence)>,
    ) -> CreatedTask {
        let ended = Arc::new(Ended::default());
        let (mut before, mut longest_ended) = (Vec::new(), 0);
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, dependence) in dependences {
            let place = places.entry((creator, place)).or_default();
            // It may name a place twice.
            let others = |one: &&Arc<Ended>| !Arc::ptr_eq(one, &ended);
            before.extend(place.writer.iter().filter(others).cloned());
            match dependence {
                Dependence::Reads => {
                    place.readers.push(Arc::clone(&ended));
                    place.forget_ended();
                }
                Dependence::Writes => {
                    before.extend(place.readers.drain(..).filter(|one| others(&one)));
                    longest_ended = std::mem::take(&mut place.longest_read).max(longest_ended);
                    place.writer = Some(Arc::clone(&ended));
                }
            }
        }
        CreatedTask {
            before,
            longest_ended,
            ended,
        }
    }

    /// A task ends, after so many ticks of its own; says by how much that has made the longest chain
    /// longer.
    pub(crate) fn end(&self, task: &RunningTask, own: u64) -> u64 {
        // What has ended is told from what has not.
        let chain = task.before.saturating_add(own).max(1);
        task.ended.0.store(chain, Ordering::Release);
        let longest = self.longest.fetch_max(chain, Ordering::Relaxed);
        chain.saturating_sub(longest)
    }
}

impl CreatedTask {
    /// The task is executed: all that it depends on has ended.
    pub(crate) fn begin(self) -> RunningTask {
        let chains = self.before.iter().map(|before| before.get());
        RunningTask {
            before: chains.fold(self.longest_ended, u64::max),
            ended: self.ended,
        }
    }
}
