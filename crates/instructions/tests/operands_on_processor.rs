//! Asks the processor whether the memory operands listed for instructions are true.
//!
//! Every instruction with an operand in memory is run with that operand at the edges of
//! mapped memory: it must not fault where it just fits, must fault one step further, must
//! fault on read-only memory exactly if it is said to write, and must leave masked elements
//! alone exactly if it is said to. Instructions that this processor lacks are counted and
//! skipped.

#[path = "operands_on_processor/forms.rs"]
mod forms;
#[path = "operands_on_processor/machine.rs"]
mod machine;

use std::collections::BTreeSet;

use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, Register};
use unspool_events::AccessKind;
use unspool_instructions::operands::{
    ElementMask, ExtendedStateSizes, MemoryOperand, MemoryOperands, Shape, memory_operands,
};

use machine::{Inputs, Machine, Outcome};

/// Instructions that touch no memory of the program's, but fault where none is mapped; and
/// those that the kernel may emulate.
const NOT_COMPARED: [Mnemonic; 13] = [
    Mnemonic::Clflush,
    Mnemonic::Clflushopt,
    Mnemonic::Clwb,
    Mnemonic::Cldemote,
    Mnemonic::Sgdt,
    Mnemonic::Sidt,
    Mnemonic::Sldt,
    Mnemonic::Smsw,
    Mnemonic::Str,
    // These would load segment registers with garbage.
    Mnemonic::Lss,
    Mnemonic::Lfs,
    Mnemonic::Lgs,
    // Its protection-key and state rules make it fault for other reasons.
    Mnemonic::Xrstor,
];

/// One instruction under test.
struct Case<'machine> {
    machine: &'machine mut Machine,
    bytes: Vec<u8>,
    instruction: Instruction,
    failures: Vec<String>,
}

impl Case<'_> {
    fn run(&mut self, inputs: Inputs) -> Outcome {
        self.machine.run(&self.bytes, inputs)
    }

    fn expect(&mut self, what: &str, inputs: Inputs, fault: bool) {
        let outcome = self.run(inputs);
        let agrees = match outcome {
            // The operand's alignment is not what is asked here.
            Outcome::ProtectionFault => true,
            Outcome::Completed => !fault,
            Outcome::MemoryFault { .. } => fault,
            Outcome::Undefined => false,
        };
        if !agrees {
            self.failures.push(format!(
                "{:?} {:02x?}: {what}: expected fault {fault}, got {outcome:x?}",
                self.instruction.code(),
                self.bytes
            ));
        }
    }

    /// Tells whether any step beyond `fits` that alignment allows faults behind the end.
    fn expect_overrun(&mut self, inputs: Inputs, size: u64) {
        let end = self.machine.end();
        for step in [1, 2, 4, 8, 16, 32, 64]
            .into_iter()
            .filter(|step| *step <= size)
        {
            let mut beyond = inputs;
            beyond.pointer += step;
            match self.run(beyond) {
                Outcome::ProtectionFault => {}
                Outcome::MemoryFault { address } if address >= end => return,
                outcome => {
                    self.failures.push(format!(
                        "{:?} {:02x?}: {step} bytes too far of {size}: {outcome:x?}",
                        self.instruction.code(),
                        self.bytes
                    ));
                    return;
                }
            }
        }
    }

    /// Whether writing is said truly.
    fn check_writing(&mut self, inputs: Inputs, writes: bool) {
        self.machine.set_read_only(true);
        self.expect("on read-only memory", inputs, writes);
        self.machine.set_read_only(false);
    }

    fn check_plain(&mut self, size: u64, writes: bool) {
        let (start, end) = (self.machine.start(), self.machine.end());
        let at = |pointer| Inputs {
            pointer,
            ..Inputs::default()
        };
        self.expect("at the end", at(end - size), false);
        self.expect_overrun(at(end - size), size);
        self.expect("at the start", at(start), false);
        self.check_writing(at(start), writes);
        if self.instruction.has_op_mask() {
            self.expect("with an empty mask, outside", at(end), true);
        }
    }

    fn check_masked(&mut self, size: u64, count: u8, mask: ElementMask, writes: bool) {
        let end = self.machine.end();
        let checks_whole = faults_despite_mask(self.instruction.mnemonic());
        for element in 0..u64::from(count) {
            let fits = with_elements(mask, &[element], end - (element + 1) * size);
            if !checks_whole {
                self.expect("an element at the end", fits, false);
            }
            let beyond = Inputs {
                pointer: fits.pointer + size,
                ..fits
            };
            self.expect("an element beyond the end", beyond, true);
        }
        if !checks_whole {
            self.expect("no element", with_elements(mask, &[], end), false);
        }
        let all: Vec<u64> = (0..u64::from(count)).collect();
        let start = self.machine.start();
        self.check_writing(with_elements(mask, &all, start), writes);
    }

    fn check_any_of(&mut self, size: u64, count: u8, mask: ElementMask) {
        let end = self.machine.end();
        for element in 0..u64::from(count) {
            let fits = with_elements(mask, &[element], end - size);
            self.expect("at the end", fits, false);
            let beyond = Inputs {
                pointer: fits.pointer + size,
                ..fits
            };
            self.expect("beyond the end", beyond, true);
        }
        self.expect("no element", with_elements(mask, &[], end), false);
        if count < 64 {
            let irrelevant = with_elements(mask, &[u64::from(count)], end);
            self.expect("an irrelevant mask bit", irrelevant, false);
        }
    }

    fn check_compressed(&mut self, size: u64, count: u8, mask: Register, writes: bool) {
        let end = self.machine.end();
        let mask = ElementMask::Bits(mask);
        for number in 1..=u64::from(count) {
            // Every other bit where there is room, so that bits and elements differ.
            let stride = if number * 2 <= u64::from(count) { 2 } else { 1 };
            let bits: Vec<u64> = (0..number).map(|index| index * stride).collect();
            let fits = with_elements(mask, &bits, end - number * size);
            self.expect("elements at the end", fits, false);
            let beyond = Inputs {
                pointer: fits.pointer + size,
                ..fits
            };
            self.expect("elements beyond the end", beyond, true);
        }
        let start = self.machine.start();
        self.check_writing(with_elements(mask, &[0], start), writes);
    }

    fn check_indexed(&mut self, operand: &MemoryOperand, writes: bool) {
        let Shape::Indexed {
            index_size,
            count,
            mask,
            ..
        } = operand.shape
        else {
            return;
        };
        let (size, end) = (u64::from(operand.size), self.machine.end());
        for element in 0..u64::from(count) {
            for distance in [0x40_i64, -0x40] {
                let mut fits = with_elements(mask, &[element], 0);
                let offset = distance * i64::from(operand.scale);
                fits.pointer = end.wrapping_sub(size).wrapping_sub(offset as u64);
                let at = element as usize * usize::from(index_size);
                let bytes = &distance.to_le_bytes()[..usize::from(index_size)];
                fits.indexes[at..at + bytes.len()].copy_from_slice(bytes);
                self.expect("an indexed element at the end", fits, false);
                let beyond = Inputs {
                    pointer: fits.pointer + size,
                    ..fits
                };
                self.expect("an indexed element beyond the end", beyond, true);
            }
        }
        self.expect("no element", with_elements(mask, &[], end), false);
        let start = self.machine.start();
        self.check_writing(with_elements(mask, &[0], start), writes);
    }

    fn check(&mut self, operands: &[MemoryOperand]) {
        let writes = operands
            .iter()
            .any(|operand| operand.kind == AccessKind::Write);
        let Some(operand) = operands.first() else {
            let end = self.machine.end();
            self.expect(
                "no access",
                Inputs {
                    pointer: end,
                    ..Inputs::default()
                },
                false,
            );
            return;
        };
        let size = u64::from(operand.size);
        match operand.shape {
            // The bit numbers are zero.
            Shape::Plain | Shape::BitString { .. } => self.check_plain(size, writes),
            Shape::Masked { count, mask } => self.check_masked(size, count, mask, writes),
            Shape::AnyOf { count, mask } => self.check_any_of(size, count, mask),
            Shape::Compressed { count, mask } => self.check_compressed(size, count, mask, writes),
            Shape::Indexed { .. } => self.check_indexed(operand, writes),
            Shape::Repeat { .. } | Shape::AlignedDown | Shape::Tile { .. } => {}
        }
    }
}

/// Inputs whose mask selects `elements`.
fn with_elements(mask: ElementMask, elements: &[u64], pointer: u64) -> Inputs {
    let mut inputs = Inputs {
        pointer,
        ..Inputs::default()
    };
    match mask {
        ElementMask::All => {}
        ElementMask::Bits(_) => {
            inputs.mask = elements.iter().map(|element| 1 << element).sum();
        }
        ElementMask::Vector { size, .. } => {
            for element in elements {
                let top = (*element as usize + 1) * usize::from(size) - 1;
                inputs.vector_mask[top] = 0x80;
            }
        }
    }
    inputs
}

/// Stores that write masked elements only, but may fault for the whole operand.
fn faults_despite_mask(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Maskmovdqu
            | Mnemonic::Vmaskmovdqu
            | Mnemonic::Vextractf32x4
            | Mnemonic::Vextractf32x8
            | Mnemonic::Vextractf64x2
            | Mnemonic::Vextractf64x4
            | Mnemonic::Vextracti32x4
            | Mnemonic::Vextracti32x8
            | Mnemonic::Vextracti64x2
            | Mnemonic::Vextracti64x4
    )
}

/// Whether the case can be run safely and compared at all.
fn is_comparable(instruction: &Instruction, operands: &[MemoryOperand]) -> bool {
    !NOT_COMPARED.contains(&instruction.mnemonic())
        && instruction.flow_control() == iced_x86::FlowControl::Next
        && !instruction.op0_register().is_segment_register()
        // Intel's processors read two bytes, AMD's four; no compiler emits it.
        && instruction.code() != Code::Movsxd_r16_rm16
        && operands.iter().all(|operand| matches!(operand.base, Register::RDI | Register::RSP))
}

#[test]
fn operands_are_as_the_processor_sees_them() {
    let mut machine = Machine::new();
    let mut info = InstructionInfoFactory::new();
    let state_sizes = ExtendedStateSizes::of_this_processor();
    let mut seen = BTreeSet::new();
    let (mut compared, mut lacking) = (0, 0);
    let mut failures = Vec::new();
    forms::for_each_form(&mut |bytes, instruction| {
        let form = (
            instruction.code() as usize,
            instruction.has_op_mask(),
            instruction.is_broadcast(),
        );
        if !seen.insert(form) {
            return;
        }
        let mut operands = MemoryOperands::new();
        let facts = memory_operands(instruction, &mut info, state_sizes, &mut operands);
        if facts.inexact || !is_comparable(instruction, &operands) {
            return;
        }
        operands.retain(|operand| operand.base == Register::RDI);
        let harmless = Inputs {
            pointer: machine.start(),
            ..Inputs::default()
        };
        if matches!(
            machine.run(bytes, harmless),
            Outcome::Undefined | Outcome::ProtectionFault
        ) {
            lacking += 1;
            return;
        }
        compared += 1;
        let mut case = Case {
            machine: &mut machine,
            bytes: bytes.to_vec(),
            instruction: *instruction,
            failures: Vec::new(),
        };
        case.check(&operands);
        failures.append(&mut case.failures);
    });
    println!("{compared} forms compared, {lacking} that this processor lacks or refuses");
    assert!(
        failures.is_empty(),
        "{} disagreements:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(compared > 500, "only {compared} forms were compared");
}
