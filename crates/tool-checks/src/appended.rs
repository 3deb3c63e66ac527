//! Entries that functions append, among those of inserted code.
//!
//! Before each instruction a function appends a numbered entry, and inserted code another one: in the
//! buffer each of the latter must stand right behind the former of its instruction, whichever was
//! inserted first. No number may be missing, and there must be as many entries of inserted code as a
//! counter counts instructions. System calls and signals append numbered entries too. Behind some
//! instructions the buffer is flushed: the last entry then must be the instruction's. Entries of
//! accesses stand behind the function's that is called before.
//!
//! With `spoilt`, the function is called behind the instruction.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Branch, Buffer, Constant, Counter, Delivery, ElementAddress, FullContext,
    InstructionPointer, Signal, Superblock, SystemCall, ThreadInfo, Tool, entry, say,
};

use crate::asked;

entry! {
    /// What a thread does.
    struct Made {
        at: Address,
        number: u32,
        by: u8,
    }
}

/// Inserted code, when an instruction has completed.
const COMPLETED: u8 = 0;
/// The function before it.
const BEGUN: u8 = 1;
/// A system call or a signal.
const TOLD: u8 = 2;

/// The tool.
pub(crate) struct Appended {
    spoilt: bool,
    /// The position of the first one is in a register; it is full in the middle of superblocks.
    buffers: [Buffer<Appended, Made>; 2],
    accesses: Buffer<Appended, (Address, Address)>,
    completed: Counter,
    all: [AtomicU64; 6],
}

/// What a thread has found in a buffer.
#[derive(Clone, Copy, Default)]
struct Seen {
    completed: u64,
    numbered: u32,
    last: Option<Made>,
}

/// What a thread has done and found.
#[derive(Default)]
pub(crate) struct State {
    made: u32,
    seen: [Seen; 2],
    /// The instruction of the last entry of a function among those of accesses.
    begun: u64,
    accesses: u64,
    flushes: u64,
    wrong: u64,
}

/// Not what an access has, but for a function's entry.
const NO_ACCESS: Address = Address(u64::MAX);

impl Appended {
    pub(crate) fn new() -> Appended {
        Appended {
            spoilt: asked("spoilt"),
            buffers: [
                Buffer::new(1, |_, state: &mut State, batch: &[Made]| {
                    state.see(0, batch)
                }),
                Buffer::new(1000, |_, state: &mut State, batch: &[Made]| {
                    state.see(1, batch)
                }),
            ],
            accesses: Buffer::new(100, |_, state: &mut State, batch| state.see_accesses(batch)),
            completed: Counter::new(),
            all: Default::default(),
        }
    }

    fn append(&self, state: &mut State, at: Address, by: u8) {
        let number = state.made;
        state.made += 1;
        for buffer in self.buffers {
            buffer.append(state, Made { at, number, by });
        }
    }

    fn begins(&self, state: &mut State, at: Address) {
        self.append(state, at, BEGUN);
        self.accesses.append(state, (at, NO_ACCESS));
    }

    fn begins_with_context(&self, state: &mut State, at: Address, _: unspool_tool::Context) {
        self.begins(state, at);
    }

    /// All that has been made must be there, and the instruction's entry the last.
    fn completes(&self, state: &mut State, at: Address) {
        for (number, buffer) in self.buffers.into_iter().enumerate() {
            buffer.flush(state);
            let seen = &state.seen[number];
            let is_last = seen
                .last
                .is_some_and(|last| (last.at, last.by) == (at, COMPLETED));
            let complete = seen.numbered == state.made && is_last;
            state.wrong += u64::from(!complete);
        }
        state.flushes += 1;
    }

    fn add(&self, state: &State) {
        let [first, second] = &state.seen;
        let numbered = [first, second].map(|it| u64::from(it.numbered != state.made));
        let values = [
            first.completed,
            second.completed,
            state.made.into(),
            state.accesses,
            state.flushes,
            state.wrong + numbered[0] + numbered[1],
        ];
        for (all, value) in self.all.iter().zip(values) {
            all.fetch_add(value, Ordering::Relaxed);
        }
    }
}

impl State {
    fn see(&mut self, buffer: usize, batch: &[Made]) {
        let seen = &mut self.seen[buffer];
        for made in batch {
            let right = match made.by {
                COMPLETED => {
                    seen.completed += 1;
                    seen.last
                        .is_some_and(|last| (last.at, last.by) == (made.at, BEGUN))
                }
                _ => {
                    seen.numbered += 1;
                    made.number + 1 == seen.numbered
                }
            };
            self.wrong += u64::from(!right);
            seen.last = Some(*made);
        }
    }

    fn see_accesses(&mut self, batch: &[(Address, Address)]) {
        for &(at, access) in batch {
            if access == NO_ACCESS {
                self.begun = at.0;
            } else {
                self.accesses += 1;
                self.wrong += u64::from(self.begun != at.0);
            }
        }
    }
}

impl Tool for Appended {
    type Thread = State;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let before = instruction.before();
            let at = instruction.address();
            let inline = || {
                for buffer in self.buffers {
                    let made = (InstructionPointer, Constant(0_u32), Constant(COMPLETED));
                    before.append(buffer, made);
                }
            };
            let function = || {
                let behind = instruction.after().filter(|_| self.spoilt);
                let place = behind.unwrap_or_else(|| instruction.before());
                let arguments = (InstructionPointer,);
                match at >> 1 & 3 {
                    0 => place.call(
                        Appended::begins_with_context,
                        (InstructionPointer, FullContext),
                    ),
                    1 => {
                        let always = |_: &Appended, _: &mut State, at: Address| at.0 != 0;
                        place.call_if(always, arguments, Appended::begins, arguments);
                    }
                    _ => place.call(Appended::begins, arguments),
                }
            };
            before.count(self.completed, 1);
            if at & 1 == 0 {
                function();
                inline();
            } else {
                inline();
                function();
            }
            instruction.append_accesses(self.accesses, (InstructionPointer, ElementAddress));
            if at % 7 == 0
                && let Some(after) = instruction.after()
            {
                after.call(Appended::completes, (InstructionPointer,));
            }
            if at % 5 == 0
                && instruction.branch() == Some(Branch::Conditional)
                && let Some(taken) = instruction.taken()
            {
                taken.call(Appended::completes, (InstructionPointer,));
            }
        }
    }

    fn system_call_entry(&self, state: &mut State, call: &mut SystemCall) {
        self.append(state, Address(call.number), TOLD);
    }

    fn signal(&self, state: &mut State, signal: &mut Signal) -> Delivery {
        self.append(state, Address(signal.number() as u64), TOLD);
        Delivery::Deliver
    }

    fn thread_start(&self, thread: &ThreadInfo, state: &mut State) {
        self.append(state, Address(thread.number.into()), TOLD);
    }

    fn thread_end(&self, _: &ThreadInfo, state: State) {
        self.add(&state);
    }

    fn forked(&self, state: &mut State) {
        // What the parent has made it has seen: entries are handed over before a fork.
        for seen in &mut state.seen {
            state.wrong += u64::from(seen.numbered != state.made);
            seen.completed = 0;
        }
        for all in &self.all {
            all.store(0, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let [first, second, made, accesses, flushes, wrong] =
            self.all.each_ref().map(|it| it.load(Ordering::Relaxed));
        let completed = self.completed.total();
        let agree = (first, second, wrong) == (completed, completed, 0);
        let verdict = if agree && made != 0 { "" } else { "NOT " };
        say(&format!(
            "appended {verdict}in order: {first} and {second} of {completed} instructions, {made} by functions, {accesses} accesses, {flushes} flushes, {wrong} wrong"
        ));
    }
}
