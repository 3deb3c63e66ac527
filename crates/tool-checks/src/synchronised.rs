//! Whether what a tool is told of synchronisation orders what it does order: the guest takes steps
//! one after the other, in several threads, and calls `passes` at each with its number.
//!
//! Vector clocks are kept of threads and of what they give: at each step the thread must know of the
//! step before it. So must the numbers of events: the last one of a thread before a step is greater
//! than that of the step before.
//!
//! With `without-atomics` and `without-starts` what is taken so is left out; with `own-numbers` each
//! thread counts its events itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

use unspool_tool::lock::Mutex;
use unspool_tool::{
    FunctionArgument, Image, Side, Superblock, SyncObject, SyncOperation, Synchronisation,
    ThreadInfo, Tool, say,
};

use crate::asked;

/// How far each thread is known to have come, by its number.
type Clock = Vec<u64>;

/// The tool.
#[derive(Default)]
pub(crate) struct Synchronised {
    given: Mutex<HashMap<SyncObject, Clock>>,
    steps: Mutex<Steps>,
    /// Atomic instructions that were begun and are not over.
    begun: AtomicI64,
    joined: AtomicI64,
}

#[derive(Default)]
struct Steps {
    taken: u64,
    /// Of the last one: its thread, how far that had come, and its last event.
    last: Option<(usize, u64, u64)>,
    not_known: u64,
    not_in_order: u64,
}

/// What is known of a thread.
#[derive(Default)]
pub(crate) struct Thread {
    number: usize,
    clock: Clock,
    last_event: u64,
}

fn join(clock: &mut Clock, other: &Clock) {
    clock.resize(clock.len().max(other.len()), 0);
    let both = clock.iter_mut().zip(other);
    both.for_each(|(time, other)| *time = *other.max(time));
}

impl Synchronised {
    fn passes(&self, thread: &mut Thread, number: u64) {
        let mut steps = self.steps.lock();
        assert_eq!(
            number, steps.taken,
            "the guest takes one step after the other"
        );
        if let Some((other, time, event)) = steps.last {
            let known = thread.clock.get(other).copied().unwrap_or(0);
            let is_own = other == thread.number;
            steps.not_known += u64::from(known < time);
            steps.not_in_order += u64::from(!is_own && thread.last_event <= event);
        }
        steps.taken += 1;
        let time = thread.clock[thread.number];
        steps.last = Some((thread.number, time, thread.last_event));
    }
}

impl Tool for Synchronised {
    type Thread = Thread;
    const SYNCHRONISATION: bool = true;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        for passes in image.routines_named("passes") {
            let number = FunctionArgument::<u64, 0>::new();
            passes.entry().call(Synchronised::passes, (number,));
        }
    }

    fn thread_start(&self, info: &ThreadInfo, thread: &mut Thread) {
        thread.number = info.number as usize;
        thread.clock = vec![0; thread.number + 1];
        thread.clock[thread.number] = 1;
    }

    fn synchronisation(&self, thread: &mut Thread, event: &Synchronisation) {
        thread.last_event = match asked("own-numbers") {
            true => thread.last_event + 1,
            false => event.order,
        };
        let left_out = match event.operation {
            SyncOperation::Atomic { .. } => {
                let change = if event.side == Side::Gives { 1 } else { -1 };
                self.begun.fetch_add(change, Ordering::Relaxed);
                asked("without-atomics")
            }
            SyncOperation::Join => {
                self.joined.fetch_add(1, Ordering::Relaxed);
                false
            }
            SyncOperation::Start => asked("without-starts"),
            _ => false,
        };
        let mut given = self.given.lock();
        match event.side {
            Side::Takes if left_out => {}
            Side::Takes => {
                if let Some(clock) = given.get(&event.object) {
                    join(&mut thread.clock, clock);
                }
            }
            Side::Gives => {
                join(given.entry(event.object).or_default(), &thread.clock);
                thread.clock[thread.number] += 1;
            }
        }
    }

    fn end(&self) {
        let steps = self.steps.lock();
        say(&format!(
            "synchronised {} steps: {} not known, {} not in order, {} atomics not over, {} joined",
            steps.taken,
            steps.not_known,
            steps.not_in_order,
            self.begun.load(Ordering::Relaxed),
            self.joined.load(Ordering::Relaxed)
        ));
    }
}
