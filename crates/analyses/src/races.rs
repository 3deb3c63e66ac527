//! Which accesses of different threads nothing orders?
//!
//! Two accesses race where both touch a byte, one of them writes it, and neither happens before the
//! other: not by program order, and not by anything that the threads synchronise by. What that is
//! follows from what every program shows, without symbols or recompilation:
//!
//! - A word that a locked instruction touches, or that is given to the kernel as a futex, is one that
//!   threads synchronise by. Whoever writes it, plainly or not, tells what it has done before; whoever
//!   reads it learns that. Which words these are may be learnt late: see `findings`.
//! - A thread begins behind its creation, and its end comes before what is read from the word by which
//!   the kernel announces it.
//! - Pipes, sockets and signals carry order; files do not.
//! - Memory that is mapped or unmapped is other memory behind that.
//!
//! The events must come in an order in which each read stands behind the write that it saw: the order
//! `line-atomic`. In that of tickets plain loads have no place, and it could not be told what
//! they have learnt.
//!
//! Source of the algorithm: FastTrack (see `clock`), made exact to the byte.

mod atomicity;
mod calls;
mod cell;
mod clock;
mod detector;
mod findings;
mod known;
mod lanes;
mod openmp;
mod plans;
mod predicted;
mod program_parts;
mod reaches;
mod report;
mod shadow;
mod sites;
mod threads;
mod words;

use std::collections::BTreeMap;

use unspool_events::{
    Access, Event, Executions, Mapping, MemoryEffect, Module, Problem, Sink, SyncOperation,
    Synchronisation, SystemCall, ThreadEvent, ThreadId, ThreadInfo, TracedFunction,
};

pub use atomicity::Atomicity;
use atomicity::{PlainWords, Suspect};
use calls::{Calls, Meaning, channel};
use clock::Epoch;
pub use detector::Blindness;
use detector::{Channel, Detector};
use findings::{Circumstances, Findings, Pair, Side};
use openmp::OpenMp;
pub use predicted::Unpredicted;
use predicted::{Prediction, Touch, Watcher};
pub use program_parts::PartKind;
pub use report::{Race, RaceReport, RacingAccess, RacingPart, RacingThread};
pub use sites::{Origin, Site};
use threads::HeldLocks;

use crate::call_paths::{CallPaths, CallSite, ContextId};
use crate::locks::{Certainty, LockCheck, LockReport, LockStep};

/// So many threads, and parts of programs of OpenMP, are told apart that nothing has waited for.
pub const TOLD_APART: u32 = Epoch::SLOTS - 1;

/// Looks for races. Takes the events in order of time.
#[derive(Debug)]
pub struct RaceCheck {
    detector: Detector,
    openmp: OpenMp,
    knows_openmp: bool,
    calls: Calls,
    paths: CallPaths,
    /// Where threads were created that have not begun.
    created: BTreeMap<ThreadId, ContextId>,
    threads: BTreeMap<ThreadId, RacingThread>,
    modules: Vec<Module>,
    locks: LockCheck,
    /// What looks for races that another order of the same events would show, if that is wanted.
    prediction: Option<Box<Prediction>>,
    /// After this time what orders accesses may be missing.
    complete_until: u64,
}

/// What call paths may take of the memory: one part of so many.
const SHARE_OF_PATHS: u64 = 32;

/// What the prediction may take of it, beside what is known of memory.
const SHARE_OF_PREDICTION: u64 = 4;

/// The system call by which signal handlers return.
const RT_SIGRETURN: u32 = 15;

/// A futex is four bytes.
const FUTEX_BYTES: u64 = 4;

impl RaceCheck {
    /// Starts with nothing known. What is known of memory is forgotten where it would take more
    /// than `most_bytes`.
    #[must_use]
    pub fn new(most_bytes: u64) -> RaceCheck {
        RaceCheck::blind_to(Blindness::None, most_bytes)
    }

    /// The same, but one kind of synchronisation is not seen: what it orders is reported. For tests
    /// that show that it is needed.
    #[must_use]
    pub fn blind_to(blindness: Blindness, most_bytes: u64) -> RaceCheck {
        RaceCheck {
            detector: Detector::new(most_bytes, blindness),
            openmp: OpenMp::default(),
            knows_openmp: true,
            calls: Calls::default(),
            paths: CallPaths::new(
                usize::try_from(most_bytes / SHARE_OF_PATHS).unwrap_or(usize::MAX),
            ),
            created: BTreeMap::new(),
            threads: BTreeMap::new(),
            modules: Vec::new(),
            locks: LockCheck::default(),
            prediction: None,
            complete_until: u64::MAX,
        }
    }

    /// The same, and it looks for what another order of the same events would show. That takes a part
    /// of `most_bytes` more. What stays as it was is what threads did, those of OpenMP runtimes
    /// included: see [`RaceCheck::without_openmp`].
    #[must_use]
    pub fn predicting(self, most_bytes: u64) -> RaceCheck {
        RaceCheck {
            knows_openmp: false,
            prediction: Some(Box::new(Prediction::new(most_bytes / SHARE_OF_PREDICTION))),
            ..self
        }
    }

    /// The same, and a program of OpenMP is one like any other: what a thread executes is ordered as it
    /// was executed, and threads by what the runtime does.
    #[must_use]
    pub fn without_openmp(self) -> RaceCheck {
        RaceCheck {
            knows_openmp: false,
            ..self
        }
    }

    /// What the threads were, once they are known: those that were cut off may have done more.
    pub fn cut_off(&mut self, threads: &[ThreadInfo]) {
        let cut_off = threads.iter().filter(|thread| !thread.finished);
        let end = cut_off.map(|thread| thread.end_time).min();
        self.complete_until = self.complete_until.min(end.unwrap_or(u64::MAX));
    }

    /// The modules of the program, in the order in which they were told.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// What was seen of locks, given what could not be understood: where records are missing, nothing is
    /// predicted.
    #[must_use]
    pub fn locks(&self, problems: &[Problem]) -> LockReport {
        let orders = self.prediction.as_ref().map(|it| &it.orders);
        let mut report = self
            .locks
            .report(|requests| orders.is_some_and(|it| it.has_at_once(requests)));
        for deadlock in &mut report.deadlocks {
            let is_complete = problems.is_empty() && deadlock.time <= self.complete_until;
            if deadlock.certainty == Certainty::Predicted && !is_complete {
                deadlock.certainty = Certainty::Possible;
            }
        }
        report
    }

    /// The calls that led somewhere, the last one first.
    #[must_use]
    pub fn calls(&self, context: ContextId) -> Vec<CallSite> {
        self.paths.calls(context)
    }

    /// What has come of it, given what could not be understood. `atomicity` says what is known of the
    /// source of two accesses to an address: where one is atomic the plain moves to it are, too.
    #[must_use]
    pub fn report(
        &self,
        problems: &[Problem],
        mut atomicity: impl FnMut([Site; 2], u64) -> Atomicity,
    ) -> RaceReport {
        let Detector {
            findings,
            words,
            sites,
            ..
        } = &self.detector;
        let predicted = self.prediction.as_ref().map(|it| &it.findings);
        let suspects = predicted.into_iter().flat_map(Findings::suspects);
        let suspects = findings.suspects().chain(suspects);
        let plain = PlainWords::new(suspects, sites, |by, address| {
            atomicity(by.map(|site| sites.site(site)), address)
        });
        let is_atomic = |it: &Suspect| plain.atomic.has_any(it.cell, it.bytes);
        let races = findings.unexplained(words, is_atomic);
        // What is left, too, if all is atomic that may be.
        let may_be_atomic = |it: &Suspect| {
            let may_be = it.may_be_atomic(sites) && plain.possible.has_any(it.cell, it.bytes);
            is_atomic(it) || may_be
        };
        let mut certain = findings.unexplained(words, may_be_atomic);
        let is_damaged = !problems.is_empty();
        let mut report = RaceReport::default();
        if let Some(predicted) = predicted {
            let mut pairs = predicted.unexplained(words, may_be_atomic);
            // What has been seen need not be predicted.
            pairs.retain(|&(first, second), pair| {
                let is_complete = !is_damaged && pair.examples[0].time <= self.complete_until;
                is_complete && !findings.has_places(first, second, sites)
            });
            let races = pairs.iter().map(|(sides, pair)| self.race(sides, pair));
            report.predicted = races.collect();
        }
        for (sides, pair) in &races {
            let certain = certain.remove(sides);
            let race = self.race(sides, certain.as_ref().unwrap_or(pair));
            let is_uncertain = is_damaged
                || race.time > self.complete_until
                || pair.is_uncertain(findings.complete_until);
            let list = match certain {
                _ if is_uncertain => &mut report.uncertain,
                Some(_) => &mut report.races,
                None => &mut report.possible,
            };
            list.push(race);
        }
        for list in [
            &mut report.races,
            &mut report.possible,
            &mut report.uncertain,
            &mut report.predicted,
        ] {
            list.sort_by_key(|race| {
                let least = std::cmp::Reverse(race.occurrences);
                (least, race.time, race.first, race.second)
            });
        }
        RaceReport {
            beyond: self.detector.findings.beyond + predicted.map_or(0, |it| it.beyond),
            unpredicted: self.prediction.as_ref().map(|it| it.unpredicted()),
            accesses_checked: self.detector.checked,
            forgotten: self.detector.forgotten,
            begun_anew: self.detector.begun_anew,
            saw_heap: self.detector.heap.saw_functions(),
            blocks_forgotten: self.detector.heap.forgotten,
            calls_missing: self.paths.missing() + sites.calls_left_out,
            threads: self.threads.values().cloned().collect(),
            ..report
        }
    }

    fn race(&self, (first, second): &(Side, Side), pair: &Pair) -> Race {
        let example = &pair.examples[0];
        let parts = &self.detector.parts;
        let access = |side: &Side, thread: ThreadId| {
            let site = self.detector.sites.site(side.site);
            RacingAccess::new(parts.thread_of(thread).0, side.is_write, site)
        };
        let part = |thread: ThreadId| {
            parts.get(thread).map(|part| RacingPart {
                kind: part.kind,
                made_by: parts.thread_of(part.maker).0,
                made_at: part.made_at,
            })
        };
        let Circumstances { block, locks } = &example.circumstances;
        Race {
            first: access(first, example.first_thread),
            second: access(second, example.second_thread),
            address: example.cell + u64::from(example.bytes.trailing_zeros()),
            bytes: example.bytes.count_ones(),
            occurrences: pair.count,
            time: example.time,
            parts: [part(example.first_thread), part(example.second_thread)],
            block: block.map(|id| self.detector.heap.block(id, example.time)),
            locks: locks.each_ref().map(|held| {
                let held = held.as_ref().filter(|_| self.locks.saw_functions());
                held.map(|held| held.to_vec())
            }),
        }
    }

    /// Another order of what was done will not be looked for any more: what follows comes behind it.
    fn settle(&mut self) {
        if let Some(prediction) = &self.prediction
            && let Some(first) = prediction.orders.first_request()
        {
            let orders = &prediction.orders;
            self.locks
                .predict(first, |requests| orders.has_at_once(requests));
        }
    }

    /// Whether one thread runs, and others will come behind all that was done.
    fn is_predicted_alone(&self) -> bool {
        let prediction = self.prediction.as_ref();
        prediction.is_some_and(|it| it.orders.is_alone())
    }

    /// Forgets what other orders there are where that is due.
    fn forget_orders(&mut self) {
        let prediction = self.prediction.as_mut();
        if prediction.is_some_and(|it| it.is_due_to_forget()) {
            self.settle();
            if let Some(prediction) = &mut self.prediction {
                prediction.orders.forget();
            }
        }
    }

    fn lock_step(&mut self, step: LockStep, time: u64) {
        let orders = self.prediction.as_mut().map(|it| &mut it.orders);
        match (step, orders) {
            (LockStep::Asks(id), Some(orders)) => orders.asks(id, time),
            (LockStep::IsRefused(id, lock), Some(orders)) => orders.is_refused(id, lock),
            (LockStep::Holds(id), orders) => {
                let held: HeldLocks = self.locks.held(id).collect();
                if let Some(orders) = orders {
                    orders.holds(id, &held);
                }
                if let Some(now) = self.openmp.now(id) {
                    self.detector.threads.holds(now, held);
                }
            }
            (_, None) => {}
        }
    }

    fn thread_event(&mut self, id: ThreadId, event: &ThreadEvent) {
        if self.is_predicted_alone() && matches!(event, ThreadEvent::Start { .. }) {
            self.settle();
        }
        if let Some(prediction) = &mut self.prediction {
            prediction.thread_event(id, event);
        }
        match event {
            ThreadEvent::Start { os_thread, parent } => {
                let thread = RacingThread {
                    thread: id.0,
                    parent: parent.map(|parent| parent.0),
                    os_thread: *os_thread,
                    name: None,
                    created: self.created.remove(&id).unwrap_or_default(),
                };
                self.threads.insert(id, thread);
                self.detector.knows_thread();
                if self.openmp.now(id).is_some() {
                    self.detector.start(id, *parent);
                }
            }
            ThreadEvent::Registered { name, .. } => {
                if let Some(thread) = self.threads.get_mut(&id) {
                    thread.name = Some(name.clone()).filter(|name| !name.is_empty());
                }
            }
            ThreadEvent::End => {
                self.detector.end(id);
                self.paths.end(id);
            }
            ThreadEvent::HandlerCalled { .. } => {
                if let Some(now) = self.openmp.now(id) {
                    self.detector.take(now, Channel::Signals);
                }
                self.paths.handler_called(id);
            }
            ThreadEvent::Pointer { .. } | ThreadEvent::ClockMoved => {}
        }
    }

    fn synchronisation(&mut self, id: ThreadId, time: u64, event: Synchronisation) {
        let object = event.object;
        if self.is_predicted_alone() && event.operation == SyncOperation::ThreadCreate {
            self.settle();
        }
        if let Some(prediction) = &mut self.prediction {
            prediction.synchronisation(id, event, time);
        }
        match event.operation {
            SyncOperation::ThreadCreate => {
                if let Ok(child) = u32::try_from(object) {
                    let child = ThreadId(child);
                    self.detector.knows_thread();
                    if !self.openmp.creates(id, child) {
                        let creator = self.openmp.now(id).unwrap_or(id);
                        self.detector.create(creator, child);
                    }
                    self.created.insert(child, self.paths.context(id));
                }
            }
            // What the waiter and the waker know of one another stands in the word, which both
            // access; but that it is one may be learnt only here.
            SyncOperation::FutexWait | SyncOperation::FutexWake => {
                if self.openmp.now(id).is_some() {
                    self.detector.learn_word(object, FUTEX_BYTES);
                }
            }
            SyncOperation::ThreadExit => self.detector.announce_end(id, object),
            SyncOperation::SystemCall => {}
        }
    }

    fn call_begins(&mut self, id: ThreadId, time: u64, number: u32, arguments: [u64; 6]) {
        if number == RT_SIGRETURN {
            self.paths.handler_returned(id);
        }
        let call = self.calls.enter(id, number, arguments);
        if let Some(gives) = call.order.gives {
            if let Some(now) = self.openmp.now(id) {
                self.detector.give(now, channel(gives));
            }
            if let Some(prediction) = &mut self.prediction {
                prediction.give(id, channel(gives));
            }
        }
        if let Some(word) = call.released_lock() {
            self.word(id, time, word, true);
            self.detector.learn_word(word, FUTEX_BYTES);
            let now = self.openmp.now(id).unwrap_or(id);
            self.detector.release_word(now, word, FUTEX_BYTES);
        }
        if let Some((address, size)) = call.given_back() {
            self.forget(address, size);
            self.detector.heap.forget(address, size);
        }
    }

    /// The kernel reads or writes a word by which it hands on a lock.
    fn word(&mut self, id: ThreadId, time: u64, word: u64, is_write: bool) {
        let is_of_lock = self.locks.in_use(id).is_some_and(|it| it.contains(&word));
        if let Some(prediction) = &mut self.prediction
            && !is_of_lock
        {
            prediction.synchronise(
                id,
                Touch {
                    address: word,
                    size: FUTEX_BYTES,
                    is_write,
                    time,
                },
            );
        }
    }

    /// The memory of a range is other memory now.
    fn forget(&mut self, address: u64, size: u64) {
        self.detector.forget(address, size);
        if let Some(prediction) = &mut self.prediction {
            prediction.forget(address, size);
        }
    }

    /// The thread has learnt what its system call told it. That comes before what the kernel
    /// writes for it.
    fn take_from_call(&mut self, id: ThreadId) {
        let Some(call) = self.calls.pending(id) else {
            return;
        };
        if let Some(takes) = call.order.takes
            && !std::mem::replace(&mut call.has_taken, true)
        {
            if let Some(now) = self.openmp.now(id) {
                self.detector.take(now, channel(takes));
            }
            if let Some(prediction) = &mut self.prediction {
                prediction.take_from(id, channel(takes));
            }
        }
    }

    fn call_ends(&mut self, id: ThreadId, time: u64, result: i64) {
        if result >= 0 {
            self.take_from_call(id);
        }
        let call = self.calls.leave(id, result);
        if let Some((address, size)) = call.and_then(|call| call.mapped_stack(result)) {
            self.detector.parts.stack_mapped(address, size);
        }
        let taken = call.filter(|_| result == 0).and_then(|it| it.taken_lock());
        if let Some(word) = taken {
            self.detector.learn_word(word, FUTEX_BYTES);
            let now = self.openmp.now(id).unwrap_or(id);
            self.detector.acquire_word(now, word, FUTEX_BYTES);
            self.word(id, time, word, false);
        }
        if call.is_some_and(|call| call.order.gives.is_some()) {
            self.detector.is_told(self.openmp.now(id).unwrap_or(id));
        }
    }

    fn memory_effect(&mut self, id: ThreadId, time: u64, effect: MemoryEffect) {
        // The kernel may have been anywhere: nothing is known of what it did, nor what came of it.
        if effect.size == u64::MAX {
            self.settle();
            if let Some(prediction) = &mut self.prediction {
                prediction.orders.forget();
            }
            return;
        }
        self.take_from_call(id);
        let range = (effect.address, effect.size);
        let Some(call) = self.calls.pending(id) else {
            return;
        };
        let number = call.number;
        match call.meaning() {
            Meaning::Accesses => {
                let origin = (number, self.paths.context(id));
                if let Some(now) = self.openmp.now(id) {
                    self.detector
                        .kernel_accesses(now, origin, effect.write, range, time);
                }
                if let Some(prediction) = &mut self.prediction {
                    prediction.synchronise(
                        id,
                        Touch {
                            address: range.0,
                            size: range.1,
                            is_write: effect.write,
                            time,
                        },
                    );
                }
            }
            Meaning::NewMemory => self.forget(range.0, range.1),
            Meaning::Nothing => {}
        }
    }
}

impl Sink for RaceCheck {
    fn needs_order_of_time(&self) -> bool {
        false
    }

    fn module(&mut self, module: &Module) {
        if let Some(prediction) = &mut self.prediction {
            prediction.module(module);
        }
        self.modules.push(module.clone());
    }

    fn function(&mut self, function: &TracedFunction) {
        self.locks.function(function);
        self.detector.heap.function(function);
        if self.knows_openmp {
            self.openmp.function(function);
        }
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        let Some(now) = self.openmp.now(thread) else {
            return self.paths.follow(thread, batch);
        };
        let by = (thread, now);
        let Some(prediction) = &mut self.prediction else {
            let paths = &mut self.paths;
            self.detector.accesses(by, batch, paths, &mut ());
            return;
        };
        let mut watcher = Watcher {
            prediction,
            thread,
            lock: self.locks.in_use(thread),
        };
        self.detector
            .accesses(by, batch, &mut self.paths, &mut watcher);
        self.forget_orders();
    }

    fn takes_executions(&self) -> bool {
        self.prediction.is_none()
    }

    fn executions(&mut self, thread: ThreadId, executions: &Executions<'_>) {
        let paths = &mut self.paths;
        match self.openmp.now(thread) {
            Some(now) => self.detector.executions((thread, now), executions, paths),
            None => paths.follow_executions(thread, executions),
        }
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        let context = self.paths.context(thread);
        self.locks.event(thread, time, event, context);
        for step in self.locks.take_steps() {
            self.lock_step(step, time);
        }
        self.forget_orders();
        self.detector.heap.event(thread, time, event, &self.paths);
        self.openmp
            .event(&mut self.detector, thread, event, context);
        match event {
            Event::Thread(event) => self.thread_event(thread, event),
            Event::Synchronisation(event) => self.synchronisation(thread, time, *event),
            Event::SystemCall(SystemCall::Entry { number, arguments }) => {
                self.call_begins(thread, time, *number, *arguments);
            }
            Event::SystemCall(SystemCall::Exit { result, .. }) => {
                self.call_ends(thread, time, *result)
            }
            Event::MemoryEffect(effect) => self.memory_effect(thread, time, *effect),
            Event::Mapping(Mapping::Shared { .. }) | Event::Loss(_) => {}
            _ => {}
        }
        if let Event::Loss(_) = event {
            self.complete_until = self.complete_until.min(time);
        }
    }
}

#[cfg(test)]
mod tests;
