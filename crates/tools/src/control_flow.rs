//! Follows a program from instruction to instruction, and checks that each comes where the one
//! before it led to.
//!
//! It calls functions before and after every instruction and on every branch, so it is also the
//! hardest test of inserted calls, and the slowest tool. A signal's handler comes where nothing
//! led to.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Branch, Constant, InstructionPointer, Register, Superblock, ThreadInfo, Tool,
    branch_taken, say,
};

/// Checks the flow of control.
#[derive(Default)]
pub struct ControlFlow {
    executed: AtomicU64,
    misplaced: AtomicU64,
}

/// Where a thread is.
#[derive(Default)]
pub struct Thread {
    executed: u64,
    misplaced: u64,
    /// Where the next instruction is to be, if that is known.
    expected: Option<Address>,
    /// Whether the branch that comes is to be taken, if that is known.
    taken: Option<bool>,
    /// The stack pointer before the instruction.
    stack: u64,
}

impl ControlFlow {
    fn arrive(&self, thread: &mut Thread, at: Address, stack: u64) {
        if thread
            .expected
            .take()
            .is_some_and(|expected| expected != at)
        {
            thread.misplaced += 1;
        }
        thread.executed += 1;
        thread.stack = stack;
        thread.taken = None;
    }

    fn decide(&self, thread: &mut Thread, taken: bool) {
        thread.taken = Some(taken);
    }

    fn pass(&self, thread: &mut Thread, next: Address, taken: bool, stack: u64) {
        if thread.taken.take().is_some_and(|decided| decided != taken) {
            thread.misplaced += 1;
        }
        // A conditional branch leaves the stack alone.
        if taken && stack != thread.stack {
            thread.misplaced += 1;
        }
        thread.expected = Some(next);
    }
}

impl Tool for ControlFlow {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let before = instruction.before();
            before.call(ControlFlow::arrive, (InstructionPointer, Register::Rsp));
            if let Some(taken) = branch_taken(&instruction) {
                before.call(ControlFlow::decide, (taken,));
            }
            if let Some(after) = instruction.after() {
                let next = Constant(Address(instruction.next_address()));
                after.call(ControlFlow::pass, (next, Constant(false), Register::Rsp));
            }
            let Some(taken) = instruction.taken() else {
                continue;
            };
            if let (Some(Branch::Conditional), Some(target)) =
                (instruction.branch(), instruction.target())
            {
                let target = Constant(Address(target));
                taken.call(ControlFlow::pass, (target, Constant(true), Register::Rsp));
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Thread) {
        self.executed.fetch_add(thread.executed, Ordering::Relaxed);
        self.misplaced
            .fetch_add(thread.misplaced, Ordering::Relaxed);
    }

    fn forked(&self, thread: &mut Thread) {
        (thread.executed, thread.misplaced) = (0, 0);
        self.executed.store(0, Ordering::Relaxed);
        self.misplaced.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        say(&format!(
            "{} instructions begun, {} where nothing led to",
            self.executed.load(Ordering::Relaxed),
            self.misplaced.load(Ordering::Relaxed)
        ));
    }
}
