//! In which order do threads take locks, and may they wait for one another in a circle?
//!
//! Each time a thread asks for a lock while it holds others is noted, with what it knows of other
//! threads. A circle is one of requests by different threads, each for a lock that the next one
//! holds. It can close only if no lock is held at two of the requests (a *gate lock*, unless both
//! only read), and if none of the threads had to have done its part before another could begin.
//!
//! Source of the algorithm: K. Havelund, "Using Runtime Analysis to Guide Model Checking of Java
//! Programs", SPIN 2000; P. Joshi and others, "A Randomized Dynamic Program Analysis Technique for
//! Detecting Real Deadlocks", PLDI 2009.

use std::collections::{BTreeMap, BTreeSet};

use unspool_events::ThreadId;

use super::report::{Certainty, Deadlock, LockUse, Party, Wanted};
use crate::clock::Clock;

/// A lock as long as it is the same one: another number behind each initialisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LockId(pub(super) u32);

/// A lock that a thread has, or wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) id: LockId,
    pub(super) lock: LockUse,
}

/// Requests of one thread for one lock with the same others held that are kept: so many of the first,
/// and as many of the last, as far as the thread knew something else at each.
const EXAMPLES_KEPT: usize = 4;
/// Kinds of requests that are kept.
const REQUESTS_KEPT: usize = 1 << 16;
/// Steps of the search for cycles.
const MOST_STEPS: usize = 1 << 22;

/// A thread, the lock that it asks for, and those that it has. Whether each is shared stands with it.
type Key = (ThreadId, (LockId, bool), Vec<(LockId, bool)>);

/// What each of the threads of a circle holds and wants.
type Circle = Vec<(LockUse, LockUse)>;

#[derive(Debug, Clone)]
struct Example {
    clock: Clock,
    wants: LockUse,
    holds: Vec<Use>,
    time: u64,
}

/// All requests.
#[derive(Debug, Default)]
pub(super) struct LockOrder {
    requests: BTreeMap<Key, Vec<Example>>,
    /// Circles that another order of the same events is known to have.
    predicted: BTreeMap<Circle, Deadlock>,
    /// How many kinds of requests were left out.
    pub(super) beyond: u64,
}

/// One request, as it is looked at.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    key: &'a Key,
    example: &'a Example,
}

impl LockOrder {
    /// A thread asks for a lock while it holds others, and waits for it as long as it takes.
    pub(super) fn asks(
        &mut self,
        thread: ThreadId,
        clock: &Clock,
        wants: Use,
        holds: &[Use],
        time: u64,
    ) {
        let mut held: Vec<_> = holds.iter().map(|it| (it.id, it.lock.is_shared)).collect();
        held.sort_unstable();
        let key = (thread, (wants.id, wants.lock.is_shared), held);
        if self.requests.len() >= REQUESTS_KEPT && !self.requests.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let examples = self.requests.entry(key).or_default();
        if examples.last().is_some_and(|last| last.clock == *clock) {
            return;
        }
        if examples.len() == 2 * EXAMPLES_KEPT {
            examples.remove(EXAMPLES_KEPT);
        }
        examples.push(Example {
            clock: clock.clone(),
            wants: wants.lock,
            holds: holds.to_vec(),
            time,
        });
    }

    /// All circles that may close, one for each set of locks and places in the code; and whether the
    /// search was ended early. `may_meet` says which requests another order of the same events has at
    /// once.
    pub(super) fn cycles(
        &self,
        may_meet: impl FnMut(&[(ThreadId, u64)]) -> bool,
    ) -> (Vec<Deadlock>, bool) {
        let (mut found, is_cut_short) = self.search(0, may_meet);
        found.extend(self.predicted.clone());
        (found.into_values().collect(), is_cut_short)
    }

    /// Which circles another order has of the requests from some time on is found now.
    pub(super) fn predict(&mut self, since: u64, may_meet: impl FnMut(&[(ThreadId, u64)]) -> bool) {
        let (found, _) = self.search(since, may_meet);
        let predicted = found.into_iter();
        self.predicted
            .extend(predicted.filter(|(_, it)| it.certainty == Certainty::Predicted));
    }

    fn search(
        &self,
        since: u64,
        may_meet: impl FnMut(&[(ThreadId, u64)]) -> bool,
    ) -> (BTreeMap<Circle, Deadlock>, bool) {
        let requests = self.in_question(since);
        let mut by_held: BTreeMap<LockId, Vec<Request<'_>>> = BTreeMap::new();
        for request in &requests {
            for (lock, _) in &request.key.2 {
                by_held.entry(*lock).or_default().push(*request);
            }
        }
        let mut search = Search {
            by_held,
            path: Vec::new(),
            found: BTreeMap::new(),
            steps: 0,
            may_meet,
        };
        for request in &requests {
            search.path = vec![*request];
            search.go_on();
        }
        let is_cut_short = search.steps >= MOST_STEPS;
        (search.found, is_cut_short)
    }

    /// The requests that may be part of a circle: each for a lock that somebody holds who asks for
    /// something, with one held that somebody asks for who holds something.
    fn in_question(&self, since: u64) -> Vec<Request<'_>> {
        let all = self.requests.iter();
        let mut left: Vec<Request<'_>> = all
            .flat_map(|(key, examples)| {
                let recent = examples.iter().filter(move |it| it.time >= since);
                recent.map(move |example| Request { key, example })
            })
            .collect();
        loop {
            let wanted: BTreeSet<LockId> = left.iter().map(|it| it.key.1.0).collect();
            let held: BTreeSet<LockId> = left
                .iter()
                .flat_map(|it| it.key.2.iter().map(|(lock, _)| *lock))
                .collect();
            let before = left.len();
            left.retain(|it| {
                held.contains(&it.key.1.0) && it.key.2.iter().any(|(lock, _)| wanted.contains(lock))
            });
            if left.len() == before {
                return left;
            }
        }
    }
}

/// A search for circles, depth first.
struct Search<'a, M> {
    by_held: BTreeMap<LockId, Vec<Request<'a>>>,
    path: Vec<Request<'a>>,
    found: BTreeMap<Circle, Deadlock>,
    steps: usize,
    may_meet: M,
}

impl<'a, M: FnMut(&[(ThreadId, u64)]) -> bool> Search<'a, M> {
    /// Looks for those who hold what the last of the path wants.
    fn go_on(&mut self) {
        let Some(last) = self.path.last().copied() else {
            return;
        };
        let first = self.path[0];
        let holders = self.by_held.get(&last.key.1.0).cloned().unwrap_or_default();
        for next in holders {
            if self.steps >= MOST_STEPS {
                return;
            }
            self.steps += 1;
            // Each circle is found from its first thread on.
            let fits = next.key.0 > first.key.0
                && conflict(last, next)
                && self.path.iter().all(|&earlier| may_meet(earlier, next));
            if !fits {
                continue;
            }
            self.path.push(next);
            if conflict(next, first) {
                self.note();
            } else {
                self.go_on();
            }
            self.path.pop();
        }
    }

    /// The path is a circle.
    fn note(&mut self) {
        let length = self.path.len();
        let parties = self.path.iter().enumerate().map(|(number, request)| {
            let before = self.path[(number + length - 1) % length];
            let held = request.example.holds.iter();
            Party {
                thread: request.key.0.0,
                holds: held
                    .map(|it| (it.id, it.lock))
                    .find(|(id, _)| *id == before.key.1.0)
                    .map(|(_, lock)| lock),
                wants: Wanted::Lock(request.example.wants),
            }
        });
        let mut deadlock = Deadlock {
            certainty: Certainty::Possible,
            parties: parties.collect(),
            time: self
                .path
                .iter()
                .map(|it| it.example.time)
                .max()
                .unwrap_or(0),
        };
        let mut key: Vec<_> = deadlock
            .parties
            .iter()
            .filter_map(|party| match (&party.holds, &party.wants) {
                (Some(holds), Wanted::Lock(wants)) => Some((*holds, *wants)),
                _ => None,
            })
            .collect();
        key.sort_unstable();
        let known = self.found.get(&key).map(|it| it.certainty);
        if known == Some(Certainty::Predicted) {
            return;
        }
        let requests = self.path.iter().map(|it| (it.key.0, it.example.time));
        let requests: Vec<_> = requests.collect();
        if (self.may_meet)(&requests) {
            deadlock.certainty = Certainty::Predicted;
        } else if known.is_some() {
            return;
        }
        self.found.insert(key, deadlock);
    }
}

/// Whether the first waits for what the second holds.
fn conflict(first: Request<'_>, second: Request<'_>) -> bool {
    let (wanted, is_shared) = first.key.1;
    let mut held = second.key.2.iter();
    held.any(|&(lock, also_shared)| lock == wanted && !(is_shared && also_shared))
}

/// Whether both may be under way at once.
fn may_meet(first: Request<'_>, second: Request<'_>) -> bool {
    let has_gate = first.key.2.iter().any(|&(lock, is_shared)| {
        let mut held = second.key.2.iter();
        held.any(|&(other, also_shared)| lock == other && !(is_shared && also_shared))
    });
    let (clock, other) = (&first.example.clock, &second.example.clock);
    first.key.0 != second.key.0
        && !has_gate
        && !clock.precedes(first.key.0, other)
        && !other.precedes(second.key.0, clock)
}
