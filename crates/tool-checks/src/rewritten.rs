//! The range of memory that the guest `instructions/rewritten` accesses, elsewhere.
//!
//! A function says where, which is inlined; with `called`, one that is called; with `appended`, beside
//! entries and counters, which have registers of their own.

use unspool_tool::{
    AccessKind, Address, Buffer, Counter, ImageKind, Instruction, InstructionPointer, Superblock,
    Tool, effective_address,
};

use crate::asked;

const FROM: u64 = 0x3000_0000;
const TO: u64 = 0x3001_0000;
const SIZE: u64 = 0x4000;

/// The tool.
pub(crate) struct Rewritten {
    executed: Counter,
    log: Buffer<Rewritten, (Address, Address)>,
    second: Buffer<Rewritten, Address>,
}

impl Rewritten {
    pub(crate) fn new() -> Rewritten {
        Rewritten {
            executed: Counter::new(),
            log: Buffer::new(1000, |_, _, _| {}),
            second: Buffer::new(700, |_, _, _| {}),
        }
    }

    fn place(&self, _: &mut u64, at: Address) -> Address {
        let is_within = at.0.wrapping_sub(FROM) < SIZE;
        Address(if is_within { at.0 + (TO - FROM) } else { at.0 })
    }

    fn called(&self, sum: &mut u64, at: Address) -> Address {
        // Floating-point arithmetic, so that it is called and all is kept around it.
        let square = (at.0 as f64).sqrt();
        *sum = sum.wrapping_add(square as u64);
        self.place(sum, at)
    }

    fn append(&self, instruction: &Instruction<Self>) {
        let before = instruction.before();
        before.count(self.executed, 1);
        before.append(self.second, (InstructionPointer,));
        for operand in instruction.memory_operands() {
            if let Some(at) = effective_address(operand) {
                before.append(self.log, (InstructionPointer, at));
            }
        }
    }
}

impl Tool for Rewritten {
    type Thread = u64;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let image = instruction.image();
            if image.is_none_or(|image| image.kind() != ImageKind::Program) {
                continue;
            }
            if asked("appended") {
                self.append(&instruction);
            }
            let mut operands = instruction.memory_operands().iter();
            let operand = operands.find(|it| instruction.fixed_operand(it).is_none());
            let Some(operand) = operand else {
                continue;
            };
            if asked("reads-only") && operand.kind == AccessKind::Write {
                continue;
            }
            let at = effective_address(operand).expect("it can be elsewhere");
            if asked("called") {
                instruction.rewrite_memory_operand(operand, Self::called, (at,));
            } else {
                instruction.rewrite_memory_operand(operand, Self::place, (at,));
            }
        }
    }
}
