//! Batches that a thread of the tool's gets whole.
//!
//! Inserted code appends an entry for each instruction that completes, and functions append numbered
//! ones. The consumers of two buffers must get as many as a counter counts and as functions have
//! appended, each thread's in order, each batch once, and the last one once for each thread that
//! ends. Never may more batches be away than was said, and no copy of the process may be made while
//! a consumer runs.
//!
//! `slow` has the consumers sleep, `kept` has them keep a batch, which must still be what it was when
//! the next one has come, and `stops` has them stop the world. With `spoilt`, they leave entries out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Batch, Buffer, Constant, Counter, Delivery, InstructionPointer, Signal, Superblock,
    SystemCall, ThreadInfo, ThreadNumber, Tool, entry, say, stop_the_world,
};

use crate::asked;

entry! {
    /// What a thread does.
    #[derive(Debug, PartialEq)]
    struct Made {
        at: Address,
        number: u32,
        thread: u32,
    }
}

/// Not what a function has appended.
const COMPLETED: u32 = u32::MAX;
/// The most batches of each buffer that may be away.
const MOST: [usize; 2] = [2, 5];

/// The tool.
pub(crate) struct Consumed {
    slow: bool,
    kept: bool,
    stops: bool,
    spoilt: bool,
    /// The position of the first one is in a register; both are full in the middle of superblocks.
    buffers: [Buffer<Consumed, Made>; 2],
    found: [Found; 2],
    completed: Counter,
    made: AtomicU64,
    wrong: AtomicU64,
}

/// What the consumer of a buffer has found.
#[derive(Default)]
struct Found {
    runs: AtomicBool,
    completed: AtomicU64,
    numbered: AtomicU64,
    threads: Mutex<HashMap<u32, Seen>>,
    kept: Mutex<Option<(Batch<Made>, Vec<Made>)>>,
}

/// What a thread has made.
#[derive(Clone, Copy, Default)]
struct Seen {
    batches: u64,
    numbered: u32,
    has_ended: bool,
}

/// How many entries a thread's functions have appended.
#[derive(Default)]
pub(crate) struct State {
    made: u32,
    thread: u32,
}

impl Consumed {
    pub(crate) fn new() -> Consumed {
        Consumed {
            slow: asked("slow"),
            kept: asked("kept"),
            stops: asked("stops"),
            spoilt: asked("spoilt"),
            buffers: [
                Buffer::with_consumer(1, MOST[0], |tool: &Consumed, batch| tool.consume(0, batch)),
                Buffer::with_consumer(900, MOST[1], |tool: &Consumed, batch| {
                    tool.consume(1, batch);
                }),
            ],
            found: Default::default(),
            completed: Counter::new(),
            made: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    fn expect(&self, right: bool) {
        self.wrong.fetch_add(u64::from(!right), Ordering::Relaxed);
    }

    fn append(&self, state: &mut State, at: Address) {
        let (number, thread) = (state.made, state.thread);
        state.made += 1;
        self.made.fetch_add(1, Ordering::Relaxed);
        for buffer in self.buffers {
            buffer.append(state, Made { at, number, thread });
        }
    }

    fn begins(&self, state: &mut State, at: Address) {
        self.append(state, at);
    }

    fn completes(&self, state: &mut State) {
        self.buffers[1].flush(state);
    }

    fn consume(&self, number: usize, batch: Batch<Made>) {
        let found = &self.found[number];
        self.expect(!found.runs.swap(true, Ordering::SeqCst));
        self.see(found, &batch);
        if self.slow && batch.number() % 16 == 3 {
            std::thread::sleep(Duration::from_millis(2));
        }
        if self.stops && batch.number() % 64 == 7 {
            stop_the_world(|_| std::thread::yield_now());
        }
        if self.kept {
            let is = batch.to_vec();
            if let Some((before, was)) = found.kept.lock().replace((batch, is)) {
                self.expect(before[..] == was[..]);
            }
        }
        found.runs.store(false, Ordering::SeqCst);
    }

    fn see(&self, found: &Found, batch: &Batch<Made>) {
        let mut threads = found.threads.lock();
        let seen = threads.entry(batch.thread()).or_default();
        self.expect(batch.number() == seen.batches && !seen.has_ended);
        seen.batches += 1;
        seen.has_ended = batch.is_last();
        let left_out = usize::from(self.spoilt && batch.len() > 1);
        for made in &batch[left_out..] {
            self.expect(made.thread == batch.thread());
            if made.number == COMPLETED {
                found.completed.fetch_add(1, Ordering::Relaxed);
            } else {
                self.expect(made.number == seen.numbered);
                seen.numbered += 1;
                found.numbered.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Tool for Consumed {
    type Thread = State;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let before = instruction.before();
            before.count(self.completed, 1);
            for buffer in self.buffers {
                before.append(
                    buffer,
                    (InstructionPointer, Constant(COMPLETED), ThreadNumber),
                );
            }
            let at = instruction.address();
            if at % 16 == 3 {
                before.call(Consumed::begins, (InstructionPointer,));
            }
            if at % 512 == 3
                && let Some(after) = instruction.after()
            {
                after.call(Consumed::completes, ());
            }
        }
    }

    fn system_call_entry(&self, state: &mut State, call: &mut SystemCall) {
        self.append(state, Address(call.number));
    }

    fn signal(&self, state: &mut State, signal: &mut Signal) -> Delivery {
        self.append(state, Address(signal.number() as u64));
        Delivery::Deliver
    }

    fn thread_start(&self, thread: &ThreadInfo, state: &mut State) {
        state.thread = thread.number;
        self.append(state, Address(0));
    }

    fn before_fork(&self, state: &mut State) {
        // It must be consumed in the parent alone.
        self.append(state, Address(1));
    }

    fn forked(&self, state: &mut State) {
        for found in &self.found {
            self.expect(!found.runs.load(Ordering::SeqCst));
            found.completed.store(0, Ordering::Relaxed);
            found.numbered.store(0, Ordering::Relaxed);
            // Only this thread is here, and the consumer has got all that it had appended.
            let mut threads = found.threads.lock();
            threads.retain(|&thread, _| thread == state.thread);
            self.expect(threads[&state.thread].numbered == state.made);
        }
        self.made.store(0, Ordering::Relaxed);
    }

    fn exec_failed(&self) {
        for found in &self.found {
            found.threads.lock().clear();
        }
    }

    fn end(&self) {
        let completed = self.completed.total();
        let made = self.made.load(Ordering::Relaxed);
        let (mut waits, mut batches) = (0, 0);
        for (number, found) in self.found.iter().enumerate() {
            let consumption = self.buffers[number].consumption();
            let of_code = found.completed.load(Ordering::Relaxed);
            let of_functions = found.numbered.load(Ordering::Relaxed);
            self.expect((of_code, of_functions) == (completed, made));
            self.expect(self.spoilt || consumption.entries == of_code + of_functions);
            self.expect(consumption.consumed == consumption.batches);
            self.expect(consumption.most_filled <= MOST[number]);
            self.expect(found.threads.lock().values().all(|seen| seen.has_ended));
            waits += consumption.waits;
            batches += consumption.batches;
        }
        let wrong = self.wrong.load(Ordering::Relaxed);
        let verdict = match wrong == 0 && made != 0 {
            true => "exactly",
            false => "WRONGLY",
        };
        let waited = if waits == 0 { "never" } else { "sometimes" };
        say(&format!(
            "consumed {verdict}: {completed} instructions, {made} entries of functions, {batches} batches; threads waited {waited}, {wrong} wrong"
        ));
    }
}
