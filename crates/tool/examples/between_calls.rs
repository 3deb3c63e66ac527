//! Says between which two system calls of a thread most memory is accessed: the calls are entries
//! among those of accesses.

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Buffer, Superblock, SystemCall, ThreadInfo, Tool, effective_address, entry, say,
};

entry! {
    /// An access, or a system call by its number.
    struct Step {
        address: Address,
        call: u64,
    }
}

/// The number of no system call.
const ACCESS: u64 = u64::MAX;

/// Accesses between two calls.
#[derive(Clone, Copy, Default)]
struct Stretch {
    accesses: u64,
    from: u64,
    to: u64,
}

struct BetweenCalls {
    steps: Buffer<BetweenCalls, Step>,
    longest: Mutex<Stretch>,
}

/// The stretch that a thread is in, and the longest one so far.
#[derive(Default)]
struct Stretches {
    current: Stretch,
    longest: Stretch,
}

impl Stretches {
    fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            if step.call == ACCESS {
                self.current.accesses += 1;
                continue;
            }
            self.current.to = step.call;
            if self.current.accesses > self.longest.accesses {
                self.longest = self.current;
            }
            self.current = Stretch {
                from: step.call,
                ..Stretch::default()
            };
        }
    }
}

impl Tool for BetweenCalls {
    type Thread = Stretches;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            for operand in instruction.memory_operands() {
                if let Some(address) = effective_address(operand) {
                    let access = (address, unspool_tool::Constant(ACCESS));
                    instruction.before().append(self.steps, access);
                }
            }
        }
    }

    fn system_call_entry(&self, stretches: &mut Stretches, call: &mut SystemCall) {
        let step = Step {
            address: Address(0),
            call: call.number,
        };
        self.steps.append(stretches, step);
    }

    fn thread_end(&self, _: &ThreadInfo, stretches: Stretches) {
        let mut longest = self.longest.lock();
        if stretches.longest.accesses > longest.accesses {
            *longest = stretches.longest;
        }
    }

    fn end(&self) {
        let Stretch { accesses, from, to } = *self.longest.lock();
        say(&format!(
            "{accesses} accesses from call {from} to call {to}"
        ));
    }
}

fn main() {
    let steps = Buffer::new(8192, |_, stretches: &mut Stretches, steps: &[Step]| {
        stretches.follow(steps);
    });
    let longest = Mutex::default();
    unspool_tool::run(BetweenCalls { steps, longest })
}
