//! What is predicted is held against a search through all orders of the same events.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;
use unspool_events::ThreadId;

use super::*;
use crate::call_paths::ContextId;
use crate::locks::{LockKind, LockUse};
use crate::races::sites::Origin;

/// What a thread does, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Do {
    Create(usize),
    Take(usize),
    TakeShared(usize),
    Release(usize),
    /// It is not waited for a lock that somebody has.
    Refused(usize),
    Read(usize),
    Write(usize),
}

type Run = Vec<(usize, Do)>;

/// The last one creates the others.
const THREADS: usize = 4;
const CREATOR: usize = THREADS - 1;
const LOCKS: usize = 2;
const WORDS: usize = 2;

/// A run in which each thread does what was drawn, as far as it can.
fn possible(drawn: &[(usize, usize)]) -> Run {
    let mut held: [Vec<(usize, bool)>; LOCKS] = Default::default();
    let begin = [
        Do::Create(0),
        Do::Write(0),
        Do::Create(1),
        Do::Read(1),
        Do::Create(2),
    ];
    let mut run: Run = begin.map(|step| (CREATOR, step)).into();
    for &(thread, choice) in drawn {
        let lock = choice % LOCKS;
        let step = match choice / 4 {
            0 | 1 => {
                let is_shared = choice / 4 == 1 && choice % 4 >= 2;
                let own = held[lock].iter().position(|it| it.0 == thread);
                match own {
                    Some(place) => {
                        held[lock].remove(place);
                        Do::Release(lock)
                    }
                    None if held[lock].iter().any(|it| !(it.1 && is_shared)) => match is_shared {
                        true => continue,
                        false => Do::Refused(lock),
                    },
                    None => {
                        held[lock].push((thread, is_shared));
                        match is_shared {
                            true => Do::TakeShared(lock),
                            false => Do::Take(lock),
                        }
                    }
                }
            }
            2 => Do::Read(choice % WORDS),
            _ => Do::Write(choice % WORDS),
        };
        run.push((thread, step));
    }
    run
}

/// What is found by way of an order of the same events: pairs of accesses, and of requests for locks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    races: BTreeSet<(usize, usize)>,
    requests: BTreeSet<(usize, usize)>,
}

impl Found {
    /// The same, but for which of several accesses to a word a thread has made: one is told of those
    /// between two points at which it learns something or its locks change.
    fn by_words(&self, run: &Run) -> Found {
        let first_like = |number: usize| {
            let found = run.iter().position(|it| *it == run[number]);
            found.unwrap_or(number)
        };
        let races = self.races.iter();
        let races = races.map(|it| (first_like(it.0), first_like(it.1)));
        let races = races.map(|it| (it.0.min(it.1), it.0.max(it.1)));
        Found {
            races: races.collect(),
            requests: self.requests.clone(),
        }
    }
}

fn predicted(run: &Run) -> Found {
    let mut prediction = Prediction::new(1 << 30);
    let (mut sites, mut heap) = (Sites::default(), Heap::new(0));
    prediction.orders.start(ThreadId(CREATOR as u32), None);
    let mut held: [Vec<LockUse>; THREADS] = Default::default();
    let mut requests = Vec::new();
    for (number, &(thread, step)) in run.iter().enumerate() {
        let (id, time) = (ThreadId(thread as u32), number as u64 + 1);
        let mut access = |word: usize, is_write| {
            let origin = Origin::Instruction(number as u64);
            let site = sites.number(origin, 8, ContextId::NONE);
            let touch = Touch {
                address: 0x1000 + 8 * word as u64,
                size: 8,
                is_write,
                time,
            };
            prediction.access(id, touch, site, &sites, &mut heap);
        };
        match step {
            Do::Create(child) => {
                let child = ThreadId(child as u32);
                prediction.orders.create(id, child);
                prediction.orders.start(child, Some(id));
            }
            Do::Read(word) => access(word, false),
            Do::Write(word) => access(word, true),
            Do::Take(lock) | Do::TakeShared(lock) => {
                prediction.orders.asks(id, time);
                requests.push((number, id, time));
                held[thread].push(LockUse {
                    address: lock as u64,
                    kind: LockKind::ReadWrite,
                    is_shared: matches!(step, Do::TakeShared(_)),
                    context: ContextId::NONE,
                });
                prediction.orders.holds(id, &held[thread]);
            }
            Do::Refused(lock) => prediction.orders.is_refused(id, lock as u64),
            Do::Release(lock) => {
                held[thread].retain(|it| it.address != lock as u64);
                prediction.orders.holds(id, &held[thread]);
            }
        }
    }
    let mut found = Found::default();
    let number = |side: Side| match sites.site(side.site).origin {
        Origin::Instruction(number) => number as usize,
        Origin::SystemCall(_) => usize::MAX,
    };
    let words = crate::races::words::Words::default();
    for (first, second) in prediction
        .findings
        .unexplained(&words, |_| false)
        .into_keys()
    {
        found.races.insert((number(first), number(second)));
    }
    for (place, &first) in requests.iter().enumerate() {
        for &second in &requests[place + 1..] {
            let both = [(first.1, first.2), (second.1, second.2)];
            if first.1 != second.1 && prediction.orders.has_at_once(&both) {
                found.requests.insert((first.0, second.0));
            }
        }
    }
    found
}

/// The events of a run, and what must stay as it was.
struct Orders<'a> {
    run: &'a Run,
    /// The events of each thread.
    threads: Vec<Vec<usize>>,
    /// Who wrote what each read has read.
    read: Vec<Option<usize>>,
    /// Whether sections of a lock stay in their order.
    keeps_sections: bool,
    seen: HashSet<State>,
    found: Found,
}

/// How far each thread has come, who wrote each word last, and who was the last to take each lock, as
/// the number of what did it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    done: Vec<usize>,
    written: [Option<usize>; WORDS],
    taken: [usize; LOCKS],
}

fn searched(run: &Run, keeps_sections: bool) -> Found {
    let of_thread = |thread| {
        let events = run.iter().enumerate();
        let own = events.filter(move |(_, it)| it.0 == thread);
        own.map(|(number, _)| number).collect()
    };
    let mut written = [None; WORDS];
    let mut read = Vec::new();
    for (number, (_, step)) in run.iter().enumerate() {
        read.push(match step {
            Do::Read(word) => written[*word],
            _ => None,
        });
        if let Do::Write(word) = step {
            written[*word] = Some(number);
        }
    }
    let mut orders = Orders {
        run,
        threads: (0..THREADS).map(of_thread).collect(),
        read,
        keeps_sections,
        seen: HashSet::new(),
        found: Found::default(),
    };
    orders.go_on(State {
        done: vec![0; THREADS],
        written: [None; WORDS],
        taken: [0; LOCKS],
    });
    orders.found
}

impl Orders<'_> {
    fn go_on(&mut self, state: State) {
        if !self.seen.insert(state.clone()) {
            return;
        }
        let next: Vec<usize> = (0..THREADS)
            .filter(|thread| self.is_created(&state, *thread))
            .filter_map(|thread| self.threads[thread].get(state.done[thread]).copied())
            .collect();
        self.note(&next);
        for number in next {
            if let Some(state) = self.behind(&state, number) {
                self.go_on(state);
            }
        }
    }

    /// What the threads are about to do at once.
    fn note(&mut self, next: &[usize]) {
        for (place, &one) in next.iter().enumerate() {
            for &other in &next[place + 1..] {
                let pair = (one.min(other), one.max(other));
                match (self.run[one].1, self.run[other].1) {
                    (Do::Read(a) | Do::Write(a), Do::Write(b)) | (Do::Write(a), Do::Read(b))
                        if a == b =>
                    {
                        self.found.races.insert(pair);
                    }
                    (Do::Take(_) | Do::TakeShared(_), Do::Take(_) | Do::TakeShared(_)) => {
                        self.found.requests.insert(pair);
                    }
                    _ => {}
                }
            }
        }
    }

    fn behind(&self, state: &State, number: usize) -> Option<State> {
        let (thread, step) = self.run[number];
        let mut next = state.clone();
        match step {
            Do::Read(word) if state.written[word] != self.read[number] => return None,
            Do::Write(word) => next.written[word] = Some(number),
            Do::Refused(lock) if self.is_free(state, lock) => return None,
            Do::Take(lock) | Do::TakeShared(lock) => {
                let is_shared = matches!(step, Do::TakeShared(_));
                let excludes = (0..THREADS).any(|other| {
                    let holds = self.holds(state, other, lock);
                    holds.is_some_and(|also| !(also && is_shared))
                });
                if excludes || self.keeps_sections && self.is_behind(state, number) {
                    return None;
                }
                next.taken[lock] = number;
            }
            _ => {}
        }
        next.done[thread] += 1;
        Some(next)
    }

    fn is_created(&self, state: &State, thread: usize) -> bool {
        let mut done = self.threads[CREATOR][..state.done[CREATOR]].iter();
        thread == CREATOR || done.any(|it| self.run[*it].1 == Do::Create(thread))
    }

    fn is_free(&self, state: &State, lock: usize) -> bool {
        (0..THREADS).all(|thread| self.holds(state, thread, lock).is_none())
    }

    /// Whether a thread holds a lock, and only shares it.
    fn holds(&self, state: &State, thread: usize, lock: usize) -> Option<bool> {
        let done = &self.threads[thread][..state.done[thread]];
        let last = done.iter().rev().find_map(|it| match self.run[*it].1 {
            Do::Take(it) if it == lock => Some(Some(false)),
            Do::TakeShared(it) if it == lock => Some(Some(true)),
            Do::Release(it) if it == lock => Some(None),
            _ => None,
        });
        last.flatten()
    }

    /// Whether a section that excludes this one, and came later, has begun already.
    fn is_behind(&self, state: &State, number: usize) -> bool {
        let done = (0..THREADS).flat_map(|it| self.threads[it][..state.done[it]].iter());
        let mut later = done.filter(|it| **it > number);
        let own = self.run[number].1;
        later.any(|it| match (self.run[*it].1, own) {
            (Do::Take(a), Do::Take(b) | Do::TakeShared(b)) | (Do::TakeShared(a), Do::Take(b)) => {
                a == b
            }
            _ => false,
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Nothing is predicted that no order has, and nothing is missed of what those orders have that keep
    /// the sections of locks.
    #[test]
    fn predictions_are_those_of_a_search(
        drawn in proptest::collection::vec((0..THREADS, 0..16_usize), 0..16)
    ) {
        let run = possible(&drawn);
        let found = predicted(&run);
        let all = searched(&run, false);
        prop_assert!(found.races.is_subset(&all.races), "{:?}", (&found, &all, &run));
        prop_assert!(found.requests.is_subset(&all.requests), "{:?}", (&found, &all, &run));
        // Somebody else may have had the lock at an attempt that failed, and that is not looked for.
        if !run.iter().any(|(_, step)| matches!(step, Do::Refused(_))) {
            let keeping = searched(&run, true);
            prop_assert_eq!(found.by_words(&run), keeping.by_words(&run), "{:?}", run);
        }
    }
}
