//! What of a function is left if nobody looks at what it returns.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess};

use super::BodyInstruction;
use crate::compiled::STATUS;

/// The status flags, beside general registers by number.
const FLAGS: u32 = 1 << 16;
/// All registers, and the flags.
const ALL: u32 = 2 * FLAGS - 1;

/// What an instruction does with general registers and flags, as masks.
struct Use {
    reads: u32,
    /// Written wholly, in any case.
    overwrites: u32,
    writes: u32,
    /// Whether it does nothing else.
    is_all: bool,
}

/// Leaves out steps whose results nobody needs, where the function's own result is not needed.
pub(super) fn needed(steps: &[BodyInstruction]) -> Vec<BodyInstruction> {
    let mut steps = steps.to_vec();
    loop {
        let before = steps.len();
        steps = keep(&steps, &useful(&steps));
        if steps.len() == before {
            return steps;
        }
    }
}

/// Which steps are useful. Branches lead forwards only, so one look from the end is enough.
fn useful(steps: &[BodyInstruction]) -> Vec<bool> {
    let mut factory = InstructionInfoFactory::new();
    // What is needed before each step, and at the end.
    let mut needed = vec![0; steps.len() + 1];
    let mut useful = vec![true; steps.len()];
    for (number, step) in steps.iter().enumerate().rev() {
        let behind = needed[number + 1];
        needed[number] = match step {
            BodyInstruction::Branch(_, to) if *to == number + 1 => {
                useful[number] = false;
                behind
            }
            BodyInstruction::Branch(None, to) => needed[*to],
            BodyInstruction::Branch(Some(_), to) => needed[*to] | behind | FLAGS,
            BodyInstruction::Fail(_) => ALL,
            BodyInstruction::Load(register, _) => {
                useful[number] = behind & 1 << register != 0;
                behind & !(1 << register)
            }
            BodyInstruction::Plain(_, instruction) => {
                let uses = Use::of(instruction, &mut factory);
                useful[number] = !uses.is_all || uses.writes & behind != 0;
                match useful[number] {
                    true => behind & !uses.overwrites | uses.reads,
                    false => behind,
                }
            }
        };
    }
    useful
}

/// The useful steps.
fn keep(steps: &[BodyInstruction], useful: &[bool]) -> Vec<BodyInstruction> {
    let place = |to: usize| useful[..to].iter().filter(|useful| **useful).count();
    let kept = steps.iter().zip(useful).filter(|(_, useful)| **useful);
    let kept = kept.map(|(step, _)| match step {
        BodyInstruction::Branch(condition, to) => BodyInstruction::Branch(*condition, place(*to)),
        other => other.clone(),
    });
    kept.collect()
}

impl Use {
    fn of(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Use {
        let mut uses = Use {
            reads: 0,
            overwrites: 0,
            writes: 0,
            is_all: instruction.flow_control() == FlowControl::Next,
        };
        let info = factory.info(instruction);
        uses.is_all &= info.used_memory().is_empty();
        for used in info.used_registers() {
            let register = used.register();
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
            if !register.is_gpr() {
                uses.is_all &= !writes;
                continue;
            }
            let bit = 1 << register.full_register().number();
            let is_whole = used.access() == OpAccess::Write && register.size() >= 4;
            uses.overwrites |= if is_whole { bit } else { 0 };
            uses.writes |= if writes { bit } else { 0 };
            // What is written in part, or perhaps, keeps what was there.
            uses.reads |= if is_whole { 0 } else { bit };
        }
        for used in info.used_registers() {
            let reads = matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            if reads && used.register().is_gpr() {
                uses.reads |= 1 << used.register().full_register().number();
            }
        }
        let flags = instruction.rflags_modified() & STATUS;
        uses.writes |= if flags != 0 { FLAGS } else { 0 };
        uses.overwrites |= if flags == STATUS { FLAGS } else { 0 };
        uses.reads |= if instruction.rflags_read() & STATUS != 0 {
            FLAGS
        } else {
            0
        };
        // A fence writes nothing, and is there for that.
        uses.is_all &= uses.writes != 0;
        uses
    }
}

/// Whether steps change status flags.
pub(super) fn change_flags(steps: &[BodyInstruction]) -> bool {
    let changes = |instruction: &Instruction| instruction.rflags_modified() & STATUS != 0;
    steps
        .iter()
        .any(|step| matches!(step, BodyInstruction::Plain(_, instruction) if changes(instruction)))
}
