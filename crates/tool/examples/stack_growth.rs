//! How much stack a program's first thread has used in the end, and in how many steps the tool has
//! seen it grow.

use std::ops::Range;

use unspool_tool::lock::Mutex;
use unspool_tool::{MappingCause, MappingChange, Superblock, ThreadInfo, Tool, run, say};

#[derive(Default)]
struct StackGrowth {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    at_start: u64,
    stack: Range<u64>,
    steps: u32,
}

impl Tool for StackGrowth {
    type Thread = ();
    const STACK_GROWTH: bool = true;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn thread_start(&self, thread: &ThreadInfo, (): &mut ()) {
        if thread.number == 0 {
            let mut seen = self.seen.lock();
            seen.stack = thread.stack.clone();
            seen.at_start = seen.stack.end - seen.stack.start;
        }
    }

    fn mapping(&self, (): &mut (), change: &MappingChange) {
        let mut seen = self.seen.lock();
        // Others that grow are what the program has mapped so.
        if change.cause == MappingCause::Growth && change.range.end == seen.stack.start {
            seen.stack.start = change.range.start;
            seen.steps += 1;
        }
    }

    fn end(&self) {
        let seen = self.seen.lock();
        say(&format!(
            "{} KiB of stack, {} at the start, {} steps",
            (seen.stack.end - seen.stack.start) / 1024,
            seen.at_start / 1024,
            seen.steps
        ));
    }
}

fn main() {
    run(StackGrowth::default());
}
