//! Where the values of a call's arguments come from. Nothing here changes flags.

use unspool_code_cache::emit::{Emitter, Gpr, gpr};
use unspool_code_cache::gates::CallSlots;
use unspool_instructions::decode::Kind;

use crate::inserted::wide_vectors::{self, Wide};
use crate::inserted::{memory_values, observed};
use crate::slots::offset as tool_offset;
use crate::{Argument, REGISTER_ARGUMENTS};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;

/// The registers of the first arguments, behind those of the tool and the thread's state.
pub(super) const REGISTERS: [Gpr; REGISTER_ARGUMENTS] = [gpr::RDX, gpr::RCX, 8, 9];

/// An argument and its number.
pub(super) type Numbered<'a> = (usize, &'a Argument);

/// The slot of an argument's word.
pub(super) fn slot(number: usize) -> i32 {
    CallSlots::ARGUMENTS + 8 * number as i32
}

/// Whether an argument's word is always in its slot.
pub(super) fn is_in_memory((number, argument): Numbered) -> bool {
    number >= REGISTER_ARGUMENTS
        || matches!(
            argument,
            Argument::Changeable(_)
                | Argument::Vector(_)
                | Argument::WideVector { .. }
                | Argument::Target
                | Argument::Context(_)
        )
}

/// Registers of the program, some of which have been put to other uses since their values were
/// saved.
pub(super) struct Registers {
    /// Those whose values are in their slots.
    pub(super) saved: u16,
    /// Those of them that hold something else.
    pub(super) taken: u16,
}

impl Registers {
    /// Brings the program's values back into registers.
    pub(super) fn bring_back(&mut self, code: &mut Emitter, mask: u16) {
        for register in numbers(mask & self.taken) {
            code.load_slot(register, CallSlots::kept(register));
        }
        self.taken &= !mask;
    }

    /// A register that is free to be used, beside some.
    fn scratch(&self, beside: u16) -> Gpr {
        numbers(self.saved & !beside)
            .next()
            .expect("an argument touches fewer registers than are saved for it")
    }
}

/// The registers of a mask.
pub(super) fn numbers(mask: u16) -> impl Iterator<Item = Gpr> {
    (0..16).filter(move |number| mask & 1 << number != 0)
}

/// Whether an argument is to be evaluated before registers are given to others.
pub(super) fn is_evaluated_first(item: &Item, argument: &Argument) -> bool {
    matches!(
        (argument, item.layout.kind),
        (Argument::Taken, Kind::JrcxzOrLoop { .. })
    )
}

/// Which general registers an argument reads.
pub(in crate::inserted) fn reads(argument: &Argument) -> u16 {
    match argument {
        Argument::Constant(_) | Argument::Context(_) | Argument::Target => 0,
        Argument::Activation(_) | Argument::LowHalf(_) => 0,
        Argument::ElementAddress | Argument::ElementSize => 0,
        Argument::ThreadNumber | Argument::TimeStamp | Argument::MemoryValue(_) => 0,
        Argument::Flags | Argument::StackTop | Argument::FsBase => 0,
        Argument::Mask(_) | Argument::VectorControl | Argument::WideVector { .. } => 0,
        Argument::Taken | Argument::Condition(_) | Argument::Vector(_) => 0,
        Argument::Register(number) | Argument::Changeable(number) => 1 << number,
        Argument::Address(operand) => memory_values::reads(operand),
    }
}

/// Registers of which one at least is not read by an argument, whatever it is.
pub(super) const SCRATCHES: u16 = 1 << gpr::RAX | 1 << gpr::RCX | 1 << gpr::RDX | 1 << gpr::RSI;

/// Puts an argument's word into its slot.
pub(super) fn store(
    code: &mut Emitter,
    item: &Item,
    (number, argument): Numbered,
    registers: &mut Registers,
) {
    let at = slot(number);
    let used = reads(argument);
    registers.bring_back(code, used);
    match argument {
        Argument::Constant(value) | Argument::Context(value) => {
            if let Ok(short) = i32::try_from(*value as i64) {
                return code.store_slot_signed(at, short);
            }
            let scratch = registers.scratch(0);
            code.load_immediate(scratch, *value);
            code.store_slot(at, scratch);
            registers.taken |= 1 << scratch;
        }
        Argument::Register(value) | Argument::Changeable(value) => code.store_slot(at, *value),
        Argument::Address(operand) => {
            let scratch = registers.scratch(used);
            load_address(code, scratch, operand);
            code.store_slot(at, scratch);
            registers.taken |= 1 << scratch;
        }
        Argument::Taken | Argument::Condition(_) => {
            let scratch = registers.scratch(1 << gpr::RCX);
            load_condition(code, item, argument, scratch, registers);
            code.store_slot(at, scratch);
            registers.taken |= 1 << scratch;
        }
        Argument::Vector(number) | Argument::LowHalf(number) => {
            // movq fs:[slot], xmm
            let rex = 0x40 | (number >> 3) << 2;
            code.on_slot(&[0x66, rex, 0x0f, 0xd6], number & 7, at);
        }
        Argument::Activation(displacement) => {
            let scratch = registers.scratch(0);
            load_of_activation(code, scratch, *displacement);
            code.store_slot(at, scratch);
            registers.taken |= 1 << scratch;
        }
        Argument::MemoryValue(_)
        | Argument::Flags
        | Argument::StackTop
        | Argument::Mask(_)
        | Argument::VectorControl
        | Argument::FsBase => {
            let scratch = registers.scratch(0);
            load_observed(code, argument, scratch);
            code.store_slot(at, scratch);
            registers.taken |= 1 << scratch;
        }
        Argument::ThreadNumber | Argument::TimeStamp => {
            code.store_slot_signed(at, 0);
        }
        Argument::WideVector { register, bytes } => {
            let (register, bytes) = (*register, *bytes);
            wide_vectors::store_argument(code, number, Wide { register, bytes });
        }
        // It is there already.
        Argument::Target => {}
        Argument::ElementAddress | Argument::ElementSize => {
            unreachable!("a call knows of no single access")
        }
    }
}

/// Puts an argument's word into a register that does not hold what an address is made of.
pub(super) fn load(
    code: &mut Emitter,
    item: &Item,
    argument: &Argument,
    to: Gpr,
    registers: &mut Registers,
) {
    match argument {
        Argument::Constant(value) => code.load_immediate(to, *value),
        Argument::ThreadNumber | Argument::TimeStamp => code.load_immediate(to, 0),
        Argument::Register(from) if registers.taken & 1 << from != 0 => {
            code.load_slot(to, CallSlots::kept(*from));
        }
        Argument::Register(from) if *from == to => {}
        Argument::Register(from) => code.copy(to, *from),
        Argument::Address(operand) => load_address(code, to, operand),
        Argument::MemoryValue(_)
        | Argument::Flags
        | Argument::StackTop
        | Argument::Mask(_)
        | Argument::VectorControl
        | Argument::FsBase => load_observed(code, argument, to),
        Argument::Activation(displacement) => load_of_activation(code, to, *displacement),
        Argument::LowHalf(number) => {
            // movq to, xmm
            let rex = 0x48 | (number >> 3) << 2 | to >> 3;
            code.bytes(&[0x66, rex, 0x0f, 0x7e, 0xc0 | (number & 7) << 3 | to & 7]);
        }
        Argument::Taken | Argument::Condition(_) => {
            load_condition(code, item, argument, to, registers);
        }
        Argument::Changeable(_)
        | Argument::Vector(_)
        | Argument::WideVector { .. }
        | Argument::Target
        | Argument::Context(_)
        | Argument::ElementAddress
        | Argument::ElementSize => {
            unreachable!("such an argument is in memory")
        }
    }
    registers.taken |= 1 << to;
}

fn load_observed(code: &mut Emitter, argument: &Argument, to: Gpr) {
    let slot = observed::slot(argument).expect("it is in a slot");
    code.load_slot(to, slot);
}

fn load_of_activation(code: &mut Emitter, to: Gpr, displacement: i32) {
    code.load_slot(to, tool_offset::ACTIVATIONS);
    code.load(to, to, displacement);
}

/// 1 in a register if a condition holds, else 0.
fn load_condition(
    code: &mut Emitter,
    item: &Item,
    argument: &Argument,
    to: Gpr,
    registers: &mut Registers,
) {
    let condition = match (argument, item.layout.kind) {
        (Argument::Condition(condition), _) => *condition,
        (_, Kind::Jcc { condition }) => condition,
        (_, Kind::JrcxzOrLoop { .. }) => {
            return load_counted(code, item, to, registers);
        }
        _ => panic!("only a conditional jump before which a call is made may be taken"),
    };
    // mov to, 0; setcc to
    code.load_immediate(to, 0);
    code.bytes(&[0x40 | to >> 3, 0x0f, 0x90 | condition, 0xc0 | to & 7]);
}

/// Likewise, for a branch that depends on rcx: it is executed, but leads nowhere.
fn load_counted(code: &mut Emitter, item: &Item, to: Gpr, registers: &mut Registers) {
    assert!(
        to != gpr::RCX && registers.saved & 1 << gpr::RCX != 0,
        "the branch's counter has been saved"
    );
    registers.bring_back(code, 1 << gpr::RCX);
    let kept = usize::from(item.layout.length) - 1;
    code.load_immediate(to, 1);
    code.bytes(&item.bytes[..kept]);
    let here = code.here();
    code.bytes(&[0]);
    code.load_immediate(to, 0);
    code.land_short(here);
    registers.taken |= 1 << gpr::RCX;
}
