//! Call paths, found by unwinding and by following calls and returns: `call-paths` compares them at
//! every so many calls.
//!
//! The thread's own list has a return address and the stack pointer for each call. A function that
//! is left in another way than by a return (`longjmp`, an exception) is one whose stack pointer is
//! below that of a later call. What is compared are the calls that were followed, from the innermost:
//! the thread may have begun before.
//!
//! With `spoilt`, one call in a thousand is not followed.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Branch, Constant, Context, FullContext, Register, Superblock, ThreadInfo, Tool, say,
};

use crate::asked;

/// A call is looked at each time so many have been made.
const PERIOD: u64 = 97;
/// So many callers are compared at most.
const DEPTH: usize = 64;

/// The tool.
#[derive(Default)]
pub(crate) struct CallPaths {
    compared: AtomicU64,
    frames: AtomicU64,
    different: AtomicU64,
}

/// The calls that a thread is in.
#[derive(Default)]
pub(crate) struct Calls {
    /// Return address, and where it is on the stack.
    open: Vec<(u64, u64)>,
    made: u64,
}

impl Calls {
    /// Functions below this stack pointer have been left.
    fn leave_below(&mut self, stack: u64) {
        while self.open.last().is_some_and(|(_, at)| *at < stack) {
            self.open.pop();
        }
    }
}

/// Whether calls that were found are those that were followed, and perhaps more behind. A handler is
/// called by no instruction: where it returns to, and what it has interrupted, are found in addition.
fn is_path(mut found: &[u64], followed: &[u64]) -> bool {
    for &call in followed {
        found = match found {
            [first, rest @ ..] if *first == call => rest,
            [_, _, third, rest @ ..] if *third == call => rest,
            // Where there was no room for more.
            _ => return found.len() < 3 && followed.len() == DEPTH - 1,
        };
    }
    true
}

impl CallPaths {
    fn called(&self, calls: &mut Calls, stack: u64, returns_to: Address) {
        calls.leave_below(stack);
        calls.made += 1;
        if !(asked("spoilt") && calls.made.is_multiple_of(1000)) {
            calls.open.push((returns_to.0, stack - 8));
        }
    }

    /// The return address is where the stack pointer points to.
    fn returns(&self, calls: &mut Calls, stack: u64) {
        calls.leave_below(stack + 8);
    }

    fn is_due(&self, calls: &mut Calls) -> bool {
        calls.made.is_multiple_of(PERIOD)
    }

    /// At an instruction behind which a call goes to a function.
    fn look(&self, calls: &mut Calls, context: Context) {
        calls.leave_below(context.register(4));
        let mut path = [0; DEPTH];
        let found = context.call_path(&mut path);
        // A path has the calls, whose last bytes are before what they return to.
        let followed = calls
            .open
            .iter()
            .rev()
            .map(|(returns_to, _)| *returns_to - 1);
        let expected: Vec<u64> = followed.take(DEPTH - 1).collect();
        let callers = &path[1..found.max(1)];
        self.compared.fetch_add(1, Ordering::Relaxed);
        self.frames
            .fetch_add(expected.len() as u64, Ordering::Relaxed);
        if !is_path(callers, &expected) {
            self.different.fetch_add(1, Ordering::Relaxed);
            if asked("shown") {
                say(&format!(
                    "at {:x}: {callers:x?} instead of {expected:x?}",
                    path[0]
                ));
            }
        }
    }
}

impl Tool for CallPaths {
    type Thread = Calls;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let before = instruction.before();
            match instruction.branch() {
                Some(Branch::Call | Branch::IndirectCall) => {
                    let next = Constant(Address(instruction.next_address()));
                    before.call_if(CallPaths::is_due, (), CallPaths::look, (FullContext,));
                    before.call(CallPaths::called, (Register::Rsp, next));
                }
                Some(Branch::Return) => before.call(CallPaths::returns, (Register::Rsp,)),
                _ => {}
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, _: Calls) {}

    fn end(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        say(&format!(
            "call paths: {} different of {}, {} frames",
            of(&self.different),
            of(&self.compared),
            of(&self.frames)
        ));
    }
}
