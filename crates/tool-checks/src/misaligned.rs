//! Reads what is not aligned, before each block: the program may have forbidden that to itself.
//! With `looping` in a function that is too long to be copied, with `floating` in one around which
//! everything is kept, with `rarely` in what another one calls so.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Counter, Superblock, ThreadInfo, Tool, rarely, say};

use crate::asked;

/// The tool.
pub(crate) struct Misaligned {
    executed: Counter,
    sum: AtomicU64,
}

/// What a thread has.
pub(crate) struct State {
    bytes: [u8; 24],
    number: f64,
    sum: u64,
}

impl Default for State {
    fn default() -> State {
        let mut bytes = [0; 24];
        bytes[1] = 1;
        State {
            bytes,
            number: 0.0,
            sum: 0,
        }
    }
}

impl Misaligned {
    pub(crate) fn new() -> Misaligned {
        Misaligned {
            executed: Counter::new(),
            sum: AtomicU64::new(0),
        }
    }

    fn reads(&self, state: &mut State) {
        let bytes = state.bytes[1..9].try_into().expect("there are eight");
        state.sum += u64::from_le_bytes(bytes);
    }

    fn loops(&self, state: &mut State) {
        for _ in 0..std::hint::black_box(1) {
            self.reads(state);
        }
    }

    fn computes(&self, state: &mut State) {
        state.number = state.number * 1.5 + 1.0;
        self.reads(state);
    }

    fn computes_rarely(&self, state: &mut State) {
        rarely(|| self.computes(state));
    }
}

impl Tool for Misaligned {
    type Thread = State;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for block in superblock.blocks() {
            block.before().count(self.executed, 1);
            let before = block.before();
            match ["looping", "floating", "rarely"].map(asked) {
                [true, _, _] => before.call(Misaligned::loops, ()),
                [_, true, _] => before.call(Misaligned::computes, ()),
                [_, _, true] => before.call(Misaligned::computes_rarely, ()),
                _ => before.call(Misaligned::reads, ()),
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, state: State) {
        self.sum.fetch_add(state.sum, Ordering::Relaxed);
    }

    fn end(&self) {
        let (executed, sum) = (self.executed.total(), self.sum.load(Ordering::Relaxed));
        let verdict = if executed == sum {
            "as many"
        } else {
            "NOT as many"
        };
        say(&format!("misaligned: {verdict} reads as blocks, {sum}"));
    }
}
