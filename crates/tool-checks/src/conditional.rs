//! Entries that are appended on a condition, among those that always are: each is there exactly where
//! the condition holds, before the other ones of its instruction and in the order of the operands, with
//! the thread's number, and at a time that is not before that of the entry of its kind in front of it.
//!
//! With `spoilt`, another condition is expected.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Buffer, Constant, InstructionPointer, Superblock, ThreadInfo, ThreadNumber, TimeStamp,
    Tool, access_size, effective_address, entry, narrow, read_word, say,
};

use crate::asked;

entry! {
    /// An access that is about to be made.
    struct Access {
        pc: Address,
        address: Address,
        time: u64,
        size: u32,
        thread: u32,
        is_conditional: bool,
    }
}

/// The tool.
pub(crate) struct Conditional {
    /// Full in the middle of most superblocks.
    first: Buffer<Conditional, Access>,
    /// One whose position is in no register.
    other: Buffer<Conditional, Access>,
    seen: [AtomicU64; 3],
}

/// What a thread has found.
#[derive(Default)]
pub(crate) struct Found {
    number: u32,
    conditional: u64,
    always: u64,
    wrong: u64,
    /// Of each buffer: the times of the last entries of both kinds, and those on a condition of the
    /// instruction.
    last: [([u64; 2], VecDeque<Access>); 2],
}

fn holds(address: Address) -> bool {
    address.0 & 0x18 == 8
}

impl Conditional {
    pub(crate) fn new() -> Conditional {
        Conditional {
            first: Buffer::new(1, |_, found: &mut Found, batch: &[Access]| {
                found.add(0, batch)
            }),
            other: Buffer::new(1000, |_, found: &mut Found, batch: &[Access]| {
                found.add(1, batch)
            }),
            seen: Default::default(),
        }
    }

    fn test(&self, _: &mut Found, address: Address) -> bool {
        holds(address)
    }
}

impl Found {
    fn add(&mut self, buffer: usize, batch: &[Access]) {
        for access in batch {
            let (times, announced) = &mut self.last[buffer];
            let time = &mut times[usize::from(access.is_conditional)];
            let plausible = access.thread == self.number && access.time >= *time;
            *time = access.time;
            self.wrong += u64::from(!plausible);
            let is_other = announced.front().is_some_and(|it| it.pc != access.pc);
            self.wrong += u64::from(is_other);
            if access.is_conditional {
                self.conditional += 1;
                announced.push_back(*access);
            } else {
                self.always += 1;
                let first = announced.front();
                let same = first.is_some_and(|it| it.address == access.address);
                if same {
                    announced.pop_front();
                }
                let expected =
                    holds(access.address) != (asked("spoilt") && access.address.0 & 0x20 != 0);
                self.wrong += u64::from(same != expected);
            }
        }
    }
}

impl Tool for Conditional {
    type Thread = Found;

    fn thread_start(&self, thread: &ThreadInfo, found: &mut Found) {
        found.number = thread.number;
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            assert_eq!(read_word(Address(8)), None, "nothing is mapped there");
            for operand in instruction.memory_operands() {
                let Some(address) = effective_address(operand) else {
                    continue;
                };
                let before = instruction.before();
                let size = access_size(operand).map(narrow::<u32, _>);
                for buffer in [self.first, self.other] {
                    let entry = |conditional| {
                        (
                            InstructionPointer,
                            address,
                            TimeStamp,
                            size,
                            ThreadNumber,
                            Constant(conditional),
                        )
                    };
                    before.append_if(Conditional::test, (address,), buffer, entry(true));
                    before.append(buffer, entry(false));
                }
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, found: Found) {
        let values = [found.conditional, found.always, found.wrong];
        for (all, value) in self.seen.iter().zip(values) {
            all.fetch_add(value, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let [conditional, always, wrong] =
            self.seen.each_ref().map(|it| it.load(Ordering::Relaxed));
        let right = wrong == 0 && conditional != 0 && conditional < always;
        let right = if right { "" } else { "NOT " };
        say(&format!(
            "conditions {right}kept: {conditional} of {always}, {wrong} wrong"
        ));
    }
}
