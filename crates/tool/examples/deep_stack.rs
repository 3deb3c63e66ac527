//! Stops a program for gdb where a thread's stack gets deeper than a number of bytes, which is the
//! tool's argument; `monitor deepest` tells how deep the deepest has been.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Address, Branch, StackPointer, Superblock, Tool, arguments, say, stop};

struct DeepStack {
    limit: u64,
    deepest: AtomicU64,
}

/// A thread's stack: the highest place from which it has made a call, and the most bytes that
/// another call was below it. (Stacks that a thread changes to are taken for the same one.)
#[derive(Default)]
struct Stack {
    top: u64,
    deepest: u64,
}

impl DeepStack {
    fn is_deeper(&self, stack: &mut Stack, pointer: Address) -> bool {
        stack.top.wrapping_sub(pointer.0) > stack.deepest
    }

    fn deeper(&self, stack: &mut Stack, pointer: Address) {
        stack.top = stack.top.max(pointer.0);
        let depth = stack.top - pointer.0;
        let before = stack.deepest;
        stack.deepest = before.max(depth);
        self.deepest.fetch_max(depth, Ordering::Relaxed);
        if before <= self.limit && depth > self.limit {
            stop(&format!("the stack is {depth} bytes deep"));
        }
    }
}

impl Tool for DeepStack {
    type Thread = Stack;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if matches!(
                instruction.branch(),
                Some(Branch::Call | Branch::IndirectCall)
            ) {
                instruction.before().call_if(
                    DeepStack::is_deeper,
                    (StackPointer,),
                    DeepStack::deeper,
                    (StackPointer,),
                );
            }
        }
    }

    fn monitor(&self, words: &[&str]) -> Option<String> {
        let deepest = self.deepest.load(Ordering::Relaxed);
        (words == ["deepest"]).then(|| format!("{deepest} bytes"))
    }
}

fn main() {
    let limit = arguments()
        .first()
        .and_then(|word| word.to_str()?.parse().ok());
    let Some(limit) = limit else {
        say("usage: deep_stack [--gdb ADDRESS] BYTES -- PROGRAM [ARGUMENT]...");
        std::process::exit(2)
    };
    unspool_tool::run(DeepStack {
        limit,
        deepest: AtomicU64::new(0),
    })
}
