//! Other orders of what threads did, in which each does the same: which moments of different threads
//! may come together in one?
//!
//! A part of what happened, in the order in which it happened, is a run of the same program if
//!
//! - it has with each event what its thread did before it, and who wrote what it reads, so that every
//!   thread reads the same values and does the same; and
//! - no lock is taken in it that somebody has who does not come to release it there: of two sections
//!   of a lock that exclude each other, the earlier one ends in it.
//!
//! The least such part that leads to some moments is found by going on as far as these rules demand. If
//! none of what the threads are about to do then is in it, all of them stand right before it at once.
//!
//! Locks are those that [`crate::locks`] knows. What else orders threads (creation and ends, atomics,
//! futexes, pipes, signals) counts as written and read, and is never turned round. So what is found is
//! so; but only orders are looked for in which the sections of a lock keep theirs.
//!
//! Source of the algorithm: U. Mathur, A. Pavlogiannis and M. Viswanathan, "Optimal Prediction of
//! Synchronization-Preserving Races", POPL 2021; for deadlocks H. C. Tunç and others, "Sound Dynamic
//! Deadlock Prediction in Linear Time", PLDI 2023.

mod sections;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use unspool_events::ThreadId;

use crate::clock::Clock;
use crate::locks::LockUse;
use sections::{SectionId, Sections};

/// What the threads did, as far as it matters which of it comes together.
#[derive(Debug, Default)]
pub(crate) struct Reordering {
    /// By their numbers.
    threads: Vec<Thread>,
    running: usize,
    /// What came before threads that were created and have not begun.
    births: FxHashMap<ThreadId, Clock>,
    sections: Sections,
    /// The thread that runs alone, and comes behind all that others have done.
    lone: Option<ThreadId>,
    generation: u32,
    /// What clocks of steps take.
    bytes_of_clocks: usize,
}

/// A moment of a thread: right before something that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) thread: ThreadId,
    /// The number of what it does.
    pub(crate) event: u32,
}

/// A thread. What it does has numbers from 1.
#[derive(Debug, Default)]
struct Thread {
    /// What it has done.
    events: u32,
    /// So many of its first events are before all that is still looked at.
    forgotten: u32,
    steps: Vec<Step>,
    /// How many there have been.
    steps_begun: u32,
    /// What others had done that is before what it does now.
    knows: Clock,
    held: Arc<[SectionId]>,
    /// What it held when its steps were forgotten.
    held_before: Arc<[SectionId]>,
    /// When it asked for a lock, and the number of that.
    requests: Vec<(u64, u32)>,
    runs: bool,
}

/// What a thread does from an event on by which it learns something, takes a lock or releases one.
#[derive(Debug)]
struct Step {
    first: u32,
    knows: Clock,
    held: Arc<[SectionId]>,
}

/// A part of what happened: how many events of each thread.
type Part = Vec<u32>;

/// The greatest number of an event.
const MOST_EVENTS: u32 = u32::MAX - (1 << 16);
/// Steps of a lone thread that are kept: everything comes before what others will do.
const STEPS_ALONE: usize = 1 << 12;

impl Thread {
    /// The step that an event belongs to.
    fn step(&self, event: u32) -> Option<&Step> {
        let begun = self.steps.partition_point(|step| step.first <= event);
        self.steps.get(begun.checked_sub(1)?)
    }

    /// The sections that it is in behind so many events.
    fn held_behind(&self, events: u32) -> &Arc<[SectionId]> {
        self.step(events)
            .map_or(&self.held_before, |step| &step.held)
    }

    /// The next event begins a step.
    fn begin_step(&mut self) {
        self.steps_begun = self.steps_begun.wrapping_add(1);
        let first = self.events + 1;
        if self.steps.last().is_some_and(|last| last.first == first) {
            self.steps.pop();
        }
        self.steps.push(Step {
            first,
            knows: self.knows.clone(),
            held: Arc::clone(&self.held),
        });
    }

    /// It does something. Returns the number of that.
    fn does(&mut self) -> u32 {
        self.events += 1;
        self.events
    }
}

impl Reordering {
    /// What a thread does next.
    #[inline]
    pub(crate) fn next(&mut self, id: ThreadId) -> Moment {
        if self.thread(id).events >= MOST_EVENTS {
            self.begin_anew();
        }
        Moment {
            thread: id,
            event: self.thread(id).events + 1,
        }
    }

    /// A number that is another one when the thread has learnt something, taken a lock or released one.
    #[inline]
    pub(crate) fn stretch(&mut self, id: ThreadId) -> u32 {
        self.thread(id).steps_begun
    }

    /// It has done that.
    pub(crate) fn is_done(&mut self, id: ThreadId) {
        self.thread(id).does();
    }

    /// A thread asks for a lock, and may have to wait.
    pub(crate) fn asks(&mut self, id: ThreadId, time: u64) {
        let thread = self.thread(id);
        let event = thread.does();
        thread.requests.push((time, event));
    }

    /// Where a thread asked for a lock at some time, if that is still known.
    fn request(&self, id: ThreadId, time: u64) -> Option<Moment> {
        let requests = &self.threads.get(id.0 as usize)?.requests;
        let place = requests.binary_search_by_key(&time, |it| it.0).ok()?;
        Some(Moment {
            thread: id,
            event: requests[place].1,
        })
    }

    /// A thread is created.
    pub(crate) fn create(&mut self, creator: ThreadId, child: ThreadId) {
        self.is_alone_no_more();
        let clock = self.tells(creator);
        self.births.insert(child, clock);
    }

    /// A thread begins. Where its creation was not seen, it comes behind what its parent has done.
    pub(crate) fn start(&mut self, id: ThreadId, parent: Option<ThreadId>) {
        self.is_alone_no_more();
        let of_parent = |all: &mut Reordering| parent.map(|parent| all.tells(parent));
        let born = self.births.remove(&id).or_else(|| of_parent(self));
        let thread = self.thread(id);
        thread.knows = born.unwrap_or_default();
        thread.begin_step();
        thread.does();
        self.running += usize::from(!std::mem::replace(&mut thread.runs, true));
        self.look_whether_alone();
    }

    /// A thread has ended.
    pub(crate) fn end(&mut self, id: ThreadId) {
        let thread = self.thread(id);
        let ran = std::mem::replace(&mut thread.runs, false);
        self.running -= usize::from(ran);
        self.look_whether_alone();
    }

    /// What comes before what others learn of a thread now.
    pub(crate) fn tells(&mut self, id: ThreadId) -> Clock {
        let thread = self.thread(id);
        let mut clock = thread.knows.clone();
        clock.reach(id, thread.events);
        clock
    }

    /// A thread learns all that.
    pub(crate) fn learns(&mut self, id: ThreadId, clock: &Clock) {
        self.comes_behind(id, clock);
        self.is_done(id);
    }

    fn comes_behind(&mut self, id: ThreadId, clock: &Clock) {
        let knows = &self.thread(id).knows;
        let mut others = clock.times().iter().zip(0..);
        let is_known =
            |(&events, number)| ThreadId(number) == id || events <= knows.get(ThreadId(number));
        if others.all(is_known) {
            return;
        }
        let thread = self.thread(id);
        thread.knows.join(clock);
        thread.begin_step();
        let bytes = size_of_val(thread.knows.times());
        self.bytes_of_clocks += bytes;
        self.look_whether_alone();
    }

    /// What a thread does next, it does by reading what others did.
    pub(crate) fn learns_of(&mut self, id: ThreadId, events: impl Iterator<Item = Moment>) {
        let mut learnt = Clock::default();
        for Moment { thread, event } in events {
            if thread == id || self.thread(id).knows.get(thread) >= event {
                continue;
            }
            let teller = self.thread(thread);
            if event <= teller.forgotten {
                continue;
            }
            if let Some(step) = teller.step(event) {
                learnt.join(&step.knows);
            }
            learnt.reach(thread, event);
        }
        self.comes_behind(id, &learnt);
    }

    /// A thread holds these locks from now on, and no others.
    pub(crate) fn holds(&mut self, id: ThreadId, locks: &[LockUse]) {
        let before = Arc::clone(&self.thread(id).held);
        let is_kept = |section: &SectionId| locks.contains(self.sections.taken(*section));
        let (mut held, released): (Vec<_>, Vec<_>) = before.iter().copied().partition(is_kept);
        if !released.is_empty() {
            let event = self.is_in(id, &held);
            for section in released {
                self.sections.end(section, event);
            }
        }
        for lock in locks {
            if !held.iter().any(|it| self.sections.taken(*it) == lock) {
                let event = self.thread(id).events + 1;
                held.push(self.sections.begin(id, event, *lock));
                self.is_in(id, &held);
            }
        }
    }

    /// A thread comes to be in these sections. Returns the number of that.
    fn is_in(&mut self, id: ThreadId, held: &[SectionId]) -> u32 {
        let thread = self.thread(id);
        thread.held = held.into();
        thread.begin_step();
        thread.does()
    }

    /// A thread did not get a lock because somebody had it. Who that was is not known, and who had it
    /// may have released it since: the thread comes behind the last taking of it by each.
    pub(crate) fn is_refused(&mut self, id: ThreadId, lock: u64) {
        let taken: Vec<Moment> = self.sections.last_of(lock).collect();
        self.learns_of(id, taken.into_iter());
        self.is_done(id);
    }

    /// The locks that a thread holds at a moment.
    pub(crate) fn locks_at(&self, moment: Moment) -> Arc<[LockUse]> {
        let thread = self.threads.get(moment.thread.0 as usize);
        let held = thread.map(|thread| thread.held_behind(moment.event - 1));
        let held = held.into_iter().flat_map(|held| held.iter());
        held.map(|section| *self.sections.taken(*section)).collect()
    }

    /// Whether one thread runs, and comes behind all that others have done.
    pub(crate) fn is_alone(&self) -> bool {
        self.lone.is_some()
    }

    /// Whether all can be forgotten, and it is time for that: what a lone thread does comes before what
    /// others will do.
    pub(crate) fn is_due_to_forget(&self) -> bool {
        let lone = self.lone.and_then(|lone| self.threads.get(lone.0 as usize));
        lone.is_some_and(|lone| lone.steps.len() > STEPS_ALONE)
    }

    /// When the first request was made that is still known.
    pub(crate) fn first_request(&self) -> Option<u64> {
        let requests = self.threads.iter().filter_map(|it| it.requests.first());
        requests.map(|it| it.0).min()
    }

    /// Whether there is an order that has all of these requests at once, each by a thread at a time.
    pub(crate) fn has_at_once(&self, requests: &[(ThreadId, u64)]) -> bool {
        let moments = requests.iter().map(|it| self.request(it.0, it.1));
        let moments: Option<Vec<Moment>> = moments.collect();
        moments.is_some_and(|moments| self.may_meet(&moments))
    }

    /// Another number each time all that was done before comes before all that is done from now on.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// What it takes of the memory.
    pub(crate) fn bytes(&self) -> usize {
        let steps: usize = self.threads.iter().map(|it| it.steps.capacity()).sum();
        let requests: usize = self.threads.iter().map(|it| it.requests.capacity()).sum();
        steps * size_of::<Step>()
            + requests * size_of::<(u64, u32)>()
            + self.bytes_of_clocks
            + self.sections.bytes()
    }

    /// All that was done comes before all that is done from now on: nothing of it is turned round.
    pub(crate) fn forget(&mut self) {
        self.generation += 1;
        self.bytes_of_clocks = 0;
        let open = self.threads.iter().flat_map(|it| it.held.iter().copied());
        let renamed = self.sections.keep(open);
        for thread in &mut self.threads {
            thread.forgotten = thread.events;
            thread.steps = Vec::new();
            thread.requests = Vec::new();
            thread.held = thread.held.iter().map(|old| renamed[old]).collect();
            thread.held_before = Arc::clone(&thread.held);
        }
    }

    /// Whether one moment comes before another in each order.
    pub(crate) fn precedes(&self, first: Moment, second: Moment) -> bool {
        let known = self.known_at(second);
        known.is_some_and(|known| known.get(first.thread) >= first.event)
            || self.is_forgotten(first)
    }

    /// Whether there is an order in which all of these threads stand at these moments at once.
    pub(crate) fn may_meet(&self, moments: &[Moment]) -> bool {
        let mut part: Part = self.threads.iter().map(|thread| thread.forgotten).collect();
        for moment in moments {
            if self.is_forgotten(*moment) {
                return false;
            }
            go_as_far(&mut part, moment.thread, moment.event - 1);
            if let Some(known) = self.known_at(*moment) {
                join(&mut part, known);
            }
        }
        loop {
            let passes = |it: &Moment| part[it.thread.0 as usize] >= it.event;
            if moments.iter().any(passes) {
                return false;
            }
            match self.go_on(&mut part) {
                Some(true) => {}
                Some(false) => return true,
                None => return false,
            }
        }
    }

    /// Ends sections that others come behind. Returns whether there was one; nothing if one has no end.
    fn go_on(&self, part: &mut Part) -> Option<bool> {
        let mut has_gone_on = false;
        for (thread, number) in self.threads.iter().zip(0..) {
            let held = Arc::clone(thread.held_behind(part[number as usize]));
            for section in held.iter() {
                if !self.sections.is_followed(*section, part) {
                    continue;
                }
                let end = self.sections.end_of(*section)?;
                go_as_far(part, ThreadId(number), end);
                if let Some(step) = thread.step(end) {
                    join(part, &step.knows);
                }
                has_gone_on = true;
            }
        }
        Some(has_gone_on)
    }

    fn thread(&mut self, id: ThreadId) -> &mut Thread {
        let place = id.0 as usize;
        if self.threads.len() <= place {
            self.threads.resize_with(place + 1, Thread::default);
        }
        &mut self.threads[place]
    }

    fn is_forgotten(&self, moment: Moment) -> bool {
        let thread = self.threads.get(moment.thread.0 as usize);
        thread.is_none_or(|thread| moment.event <= thread.forgotten)
    }

    /// What others had done that comes before a moment.
    fn known_at(&self, moment: Moment) -> Option<&Clock> {
        let thread = self.threads.get(moment.thread.0 as usize)?;
        let step = thread.step(moment.event - 1)?;
        Some(&step.knows)
    }

    /// A thread has done more than there are numbers for.
    fn begin_anew(&mut self) {
        self.forget();
        self.births
            .values_mut()
            .for_each(|it| *it = Clock::default());
        for thread in &mut self.threads {
            (thread.events, thread.forgotten) = (0, 0);
            thread.knows = Clock::default();
        }
    }

    /// Another thread comes: behind all that was done.
    fn is_alone_no_more(&mut self) {
        if self.lone.take().is_some() {
            self.forget();
        }
    }

    fn look_whether_alone(&mut self) {
        if self.is_alone() || self.running != 1 || !self.births.is_empty() {
            return;
        }
        let Some(lone) = self.threads.iter().position(|it| it.runs) else {
            return;
        };
        let knows = &self.threads[lone].knows;
        let mut others = self.threads.iter().zip(0..);
        let is_alone = others.all(|(other, number)| {
            number as usize == lone
                || other.events == other.forgotten
                || other.events <= knows.get(ThreadId(number))
        });
        self.lone = is_alone.then_some(ThreadId(lone as u32));
    }
}

/// Goes in a thread behind so many events.
fn go_as_far(part: &mut Part, thread: ThreadId, events: u32) {
    let place = &mut part[thread.0 as usize];
    *place = (*place).max(events);
}

fn join(part: &mut Part, clock: &Clock) {
    for (place, events) in part.iter_mut().zip(clock.times()) {
        *place = (*place).max(*events);
    }
}
