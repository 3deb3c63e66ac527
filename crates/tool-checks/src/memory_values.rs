//! The values that instructions read and write, as the guest `instructions/memory_values` computes them
//! itself.
//!
//! They come in entries; with `called`, as an argument of a function that is inlined; with `kept`, as
//! the last of many arguments of one that is called; with `followed`, of one that is called because a
//! test says so, and with `filtered`, in entries that a test lets through. All instructions of all
//! images have them, so that whatever is interrupted has others meanwhile. The first argument is the
//! file to which the sums go.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;

use unspool_tool::{
    AccessKind, Address, Buffer, Constant, InstructionPointer, MemoryValue, Point, Superblock,
    ThreadInfo, Tool, arguments, memory_value,
};

use crate::asked;

/// How often a value has come, and the sum of them, each times its number.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    times: u64,
    sum: u64,
}

/// By the instruction's address, and whether it writes.
pub(crate) type Sums = HashMap<(u64, bool), Sum>;

/// The tool.
pub(crate) struct MemoryValues {
    log: Buffer<MemoryValues, (Address, bool, u64)>,
    all: Mutex<Sums>,
}

impl MemoryValues {
    pub(crate) fn new() -> MemoryValues {
        let entries = |_: &MemoryValues, sums: &mut Sums, batch: &[(Address, bool, u64)]| {
            for &(at, is_write, value) in batch {
                add(sums, at, is_write, value);
            }
        };
        MemoryValues {
            log: Buffer::new(1000, entries),
            all: Mutex::default(),
        }
    }

    fn called(&self, sums: &mut Sums, at: Address, is_write: bool, value: u64) {
        add(sums, at, is_write, value);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "so that one is not in a register"
    )]
    fn kept(
        &self,
        sums: &mut Sums,
        at: Address,
        first: u64,
        second: u64,
        third: u64,
        is_write: bool,
        value: u64,
    ) {
        // Floating-point arithmetic, so that all is kept around it.
        let same = (first as f64 + second as f64) == 2.0 * third as f64 || first != second;
        add(sums, at, is_write, if same { value } else { 0 });
    }

    fn always(&self, _: &mut Sums, _: u64) -> bool {
        true
    }

    fn insert(&self, point: Point<'_, Self>, is_write: bool, value: MemoryValue) {
        let entry = (InstructionPointer, Constant(is_write), value);
        if asked("called") {
            point.call(Self::called, entry);
        } else if asked("kept") {
            let (at, is_write, value) = entry;
            point.call(Self::kept, (at, value, value, value, is_write, value));
        } else if asked("followed") {
            point.call_if(Self::always, (value,), Self::called, entry);
        } else if asked("filtered") {
            point.append_if(Self::always, (value,), self.log, entry);
        } else {
            point.append(self.log, entry);
        }
    }
}

fn add(sums: &mut Sums, at: Address, is_write: bool, value: u64) {
    let sum = sums.entry((at.0, is_write)).or_default();
    sum.times += 1;
    sum.sum = sum.sum.wrapping_add(sum.times.wrapping_mul(value));
}

impl Tool for MemoryValues {
    type Thread = Sums;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            for operand in instruction.memory_operands() {
                let Some(value) = memory_value(operand) else {
                    continue;
                };
                match operand.kind {
                    AccessKind::Read => self.insert(instruction.before(), false, value),
                    AccessKind::Write => {
                        let behind = instruction.after().or(instruction.taken());
                        behind
                            .into_iter()
                            .for_each(|it| self.insert(it, true, value));
                    }
                }
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, sums: Sums) {
        self.all
            .lock()
            .expect("no thread panics with it")
            .extend(sums);
    }

    fn end(&self) {
        let mut text = String::new();
        for ((at, is_write), sum) in &*self.all.lock().expect("no thread panics with it") {
            let kind = if *is_write { 'w' } else { 'r' };
            writeln!(text, "{at:x} {kind} {} {:x}", sum.times, sum.sum).expect("there is room");
        }
        let file = arguments().get(1).expect("a file is named");
        std::fs::write(file, text).expect("the file can be written");
    }
}
