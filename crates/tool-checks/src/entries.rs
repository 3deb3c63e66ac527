//! Whether buffers hold what counters count, in the order in which it happened.
//!
//! Every instruction appends to two buffers and adds to a counter. One buffer is small, so
//! that it is full in the middle of most superblocks; the other one is not in a register.
//! Entries of conditional branches go to a third one, from both ways out. With `spoilt`,
//! one entry too many is made at each branch, which must be noticed.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Branch, Buffer, Constant, Counter, InstructionPointer, Register, Superblock,
    ThreadInfo, Tool, branch_taken, entry, say,
};

use crate::asked;

entry! {
    /// An instruction that completed.
    struct Executed {
        stack: u64,
        at: Address,
        length: u8,
        is_branch: bool,
        number: u16,
    }
}

/// The tool.
pub(crate) struct Entries {
    spoilt: bool,
    short: Buffer<Entries, Address>,
    long: Buffer<Entries, Executed>,
    ways: Buffer<Entries, (bool, Address, bool)>,
    executed: Counter,
    branches: Counter,
    all: [AtomicU64; 6],
}

/// Entries of the long buffer, which are a number of whole pages.
const LONG: usize = 1 << 14;

/// What a thread has found in the buffers.
#[derive(Default)]
pub(crate) struct Found {
    short: u64,
    short_order: u64,
    long: u64,
    long_order: u64,
    ways: u64,
    wrong: u64,
    /// Batches of the long buffer that were handed over shortly before its end.
    early: u64,
}

/// Depends on all that came before, and on its order.
fn order(so_far: u64, at: Address) -> u64 {
    (so_far ^ at.0)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

impl Entries {
    pub(crate) fn new() -> Entries {
        Entries {
            spoilt: asked("spoilt"),
            short: Buffer::new(1, Entries::short),
            long: Buffer::new(LONG, Entries::long),
            ways: Buffer::new(100, Entries::ways).at_system_calls(),
            executed: Counter::new(),
            branches: Counter::new(),
            all: Default::default(),
        }
    }

    fn short(&self, found: &mut Found, batch: &[Address]) {
        found.short += batch.len() as u64;
        found.short_order = batch
            .iter()
            .fold(found.short_order, |so_far, &at| order(so_far, at));
    }

    fn long(&self, found: &mut Found, batch: &[Executed]) {
        found.long += batch.len() as u64;
        found.early += u64::from((LONG / 32 * 30..LONG / 32 * 31).contains(&batch.len()));
        for executed in batch {
            found.long_order = order(found.long_order, executed.at);
            let plausible = executed.length <= 15
                && executed.number == 0x8765
                && executed.stack >> 47 == 0
                && (!executed.is_branch || executed.length >= 2);
            found.wrong += u64::from(!plausible);
        }
    }

    fn ways(&self, found: &mut Found, batch: &[(bool, Address, bool)]) {
        for pair in batch.chunks(2) {
            // What is to be, and then what was.
            let right = match *pair {
                [(decided, at, false), (went, same, true)] => decided == went && at == same,
                _ => false,
            };
            found.wrong += u64::from(!right);
        }
        found.ways += batch.len() as u64;
    }

    fn add(&self, found: &Found) {
        let values = [
            found.short,
            found.long,
            found.ways,
            found.wrong,
            u64::from(found.short_order != found.long_order),
            found.early,
        ];
        for (all, value) in self.all.iter().zip(values) {
            all.fetch_add(value, Ordering::Relaxed);
        }
    }
}

impl Tool for Entries {
    type Thread = Found;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let before = instruction.before();
            let is_conditional = branch_taken(&instruction).is_some();
            before.count(self.executed, 1);
            before.append(self.short, (InstructionPointer,));
            let arguments = (
                Register::Rsp,
                InstructionPointer,
                Constant(instruction.bytes().len() as u8),
                Constant(instruction.branch() == Some(Branch::Conditional)),
                Constant(0x8765_u16),
            );
            before.append(self.long, arguments);
            if self.spoilt && instruction.branch().is_some() {
                before.append(self.short, (InstructionPointer,));
            }
            let Some(taken) = branch_taken(&instruction).filter(|_| is_conditional) else {
                continue;
            };
            before.count(self.branches, 2);
            before.append(self.ways, (taken, InstructionPointer, Constant(false)));
            let ways = [(instruction.after(), false), (instruction.taken(), true)];
            for (way, went) in ways {
                let way = way.expect("a conditional branch has both");
                way.append(
                    self.ways,
                    (Constant(went), InstructionPointer, Constant(true)),
                );
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, found: Found) {
        self.add(&found);
    }

    fn forked(&self, found: &mut Found) {
        *found = Found::default();
        for all in &self.all {
            all.store(0, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let [short, long, ways, wrong, order, early] =
            std::array::from_fn(|number| self.all[number].load(Ordering::Relaxed));
        let (executed, branches) = (self.executed.total(), self.branches.total());
        let agree = (short, long, ways, wrong, order) == (executed, executed, branches, 0, 0);
        let verdict = if agree {
            "as counted"
        } else {
            "NOT as counted"
        };
        say(&format!(
            "entries {verdict}: {short} and {long} of {executed} instructions, {ways} of {branches} ways, {wrong} wrong, {order} threads out of order, {early} early"
        ));
    }
}
