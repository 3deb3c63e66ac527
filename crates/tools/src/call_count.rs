//! Counts, by calling a function of its own each time, how often a program calls functions,
//! and how deep.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Branch, Register, Superblock, ThreadInfo, Tool, say};

/// Counts calls.
#[derive(Default)]
pub struct CallCount {
    calls: AtomicU64,
    /// The most stack that a thread had between its first call and its deepest, in bytes.
    depth: AtomicU64,
}

/// What is kept for each thread.
#[derive(Default)]
pub struct Thread {
    calls: u64,
    highest: u64,
    lowest: u64,
}

impl CallCount {
    fn called(&self, thread: &mut Thread, stack: u64) {
        if thread.calls == 0 {
            (thread.highest, thread.lowest) = (stack, stack);
        }
        thread.calls += 1;
        thread.lowest = thread.lowest.min(stack);
    }
}

impl Tool for CallCount {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if let Some(Branch::Call | Branch::IndirectCall) = instruction.branch() {
                instruction
                    .before()
                    .call(CallCount::called, (Register::Rsp,));
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Thread) {
        self.calls.fetch_add(thread.calls, Ordering::Relaxed);
        let depth = thread.highest - thread.lowest;
        self.depth.fetch_max(depth, Ordering::Relaxed);
    }

    fn forked(&self, thread: &mut Thread) {
        *thread = Thread::default();
        self.calls.store(0, Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        let (calls, depth) = (
            self.calls.load(Ordering::Relaxed),
            self.depth.load(Ordering::Relaxed),
        );
        say(&format!("{calls} calls, {depth} bytes of stack"));
    }
}
