//! Calls a function very often at each instruction: more than fits in what is translated at once,
//! and with `too-much` more than fits at all.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Counter, Register, Superblock, ThreadInfo, Tool, say};

use crate::asked;

/// The tool.
pub(crate) struct Crowded {
    executed: Counter,
    calls: AtomicU64,
}

const CALLS: u64 = 12;

impl Crowded {
    pub(crate) fn new() -> Crowded {
        Crowded {
            executed: Counter::new(),
            calls: AtomicU64::new(0),
        }
    }

    fn called(&self, calls: &mut u64, stack: u64, first: u64) {
        *calls += u64::from(stack != 0 || first != 0);
    }
}

impl Tool for Crowded {
    type Thread = u64;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let calls = if asked("too-much") { 1000 } else { CALLS };
        for instruction in superblock.instructions() {
            instruction.before().count(self.executed, 1);
            for _ in 0..calls {
                let arguments = (Register::Rsp, Register::Rdi);
                instruction.before().call(Crowded::called, arguments);
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, calls: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    fn end(&self) {
        let (executed, calls) = (self.executed.total(), self.calls.load(Ordering::Relaxed));
        say(&format!(
            "{executed} instructions, {} rounds of calls",
            calls / CALLS
        ));
    }
}
