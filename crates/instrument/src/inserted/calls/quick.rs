//! Calls of functions of which it is known what they change, where they are made.

use std::sync::Arc;

use unspool_code_cache::emit::{Emitter, Gpr, TARGET, gpr};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::offset;

use super::values::{self, Registers, numbers};
use super::{EmittedCall, Followed, body_code};
use crate::call_forms::{CallForm, note};
use crate::inserted::Translation;
use crate::{Argument, Compiled, Renaming};
use unspool_engine::translate::superblock::Item;

/// The condition, as opcodes have it.
const NOT_EQUAL: u8 = 5;

/// What a call keeps, and gives back.
struct Kept {
    /// General registers, but for the stack pointer.
    general: u16,
    /// Low halves of vector registers.
    vectors: u16,
    flags: bool,
    stack: bool,
}

/// Emits a call.
pub(super) fn emit(
    translation: &mut Translation,
    item: &Item,
    call: &EmittedCall,
    compiled: &Arc<Compiled>,
    flags_live: bool,
) {
    let arguments: Vec<_> = call.arguments.iter().enumerate().collect();
    let in_registers: Vec<_> = arguments
        .iter()
        .copied()
        .filter(|&numbered| !values::is_in_memory(numbered))
        .filter(|(number, _)| compiled.reads & 1 << values::REGISTERS[*number] != 0)
        .collect();
    let (first, later): (Vec<_>, Vec<_>) = in_registers
        .iter()
        .copied()
        .partition(|(_, argument)| values::is_evaluated_first(item, argument));
    let (later, cyclic) = order(later);
    let first = [first, cyclic].concat();
    let in_memory: Vec<_> = arguments
        .iter()
        .copied()
        .filter(|&numbered| values::is_in_memory(numbered))
        .chain(first.iter().copied())
        .collect();
    let body = compiled.body.as_ref();
    let own = [(gpr::RDI, call.tool), (gpr::RSI, 0)];
    let own = own.map(|(register, value)| (register, value, compiled.reads & 1 << register != 0));

    let mut kept = Kept {
        general: compiled.changes,
        vectors: compiled.vectors,
        flags: flags_live && (compiled.flags || body.is_none() || call.followed.is_some()),
        stack: body.is_none_or(|body| body.uses_stack),
    };
    for (number, _) in &in_registers {
        kept.general |= 1 << values::REGISTERS[*number];
    }
    for (register, _, is_read) in own {
        kept.general |= u16::from(is_read) << register;
    }
    if kept.flags || call.followed.is_some() {
        kept.general |= 1 << gpr::RAX;
    }
    if !in_memory.is_empty() {
        kept.general |= values::SCRATCHES;
    }
    kept.general &= !call.exchanged;

    let at_call = translation.own.at_call();
    let code = &mut translation.walk.builder.code;
    kept.save(code);
    let mut registers = Registers {
        saved: kept.general,
        taken: if kept.flags { 1 << gpr::RAX } else { 0 },
    };
    for numbered in in_memory {
        values::store(code, item, numbered, &mut registers);
    }
    let made_of = later
        .iter()
        .fold(0, |mask, (_, argument)| mask | values::reads(argument));
    registers.bring_back(code, made_of);
    for (number, argument) in later {
        values::load(
            code,
            item,
            argument,
            values::REGISTERS[number],
            &mut registers,
        );
    }
    for (number, _) in first {
        code.load_slot(values::REGISTERS[number], values::slot(number));
    }
    for (register, value, is_read) in own {
        match (is_read, register) {
            (false, _) => {}
            (true, gpr::RSI) => code.load_slot(gpr::RSI, CallSlots::TOOL_STATE),
            (true, _) => code.load_immediate(register, value),
        }
    }
    match body {
        Some(body) => {
            note(call.function, CallForm::Copied);
            let start = code.here();
            body_code::put(code, body, &Renaming::default());
            let end = code.here();
            translation.tool_code.push(start..end);
        }
        None => {
            note(call.function, CallForm::Called);
            at_call.announce(code);
            code.load_slot(gpr::RSP, offset::HOST_STACK);
            code.load_immediate(gpr::RAX, call.function);
            code.bytes(&[0xff, 0xd0]); // call rax
            at_call.revoke(code);
            code.compare_slot_zero(offset::PENDING);
            let field = code.jump_forward_if(NOT_EQUAL);
            let back = code.here();
            translation.interrupted.push((field, back));
        }
    }
    let code = &mut translation.walk.builder.code;
    let follows = call.followed.as_ref().map(|_| {
        code.bytes(&[0x84, 0xc0]); // test al, al
        code.jump_forward_if(NOT_EQUAL)
    });
    kept.restore(code, &call.arguments);
    if let (Some(field), Some(followed)) = (follows, &call.followed) {
        let back = code.here();
        let restoring = Restoring {
            kept,
            arguments: call.arguments.clone(),
        };
        let followed = Followed {
            field,
            back,
            restoring: Some(restoring),
            call: (**followed).clone(),
            number: translation.walk.number,
            flags_live,
            at_call,
        };
        followed.put_off(translation, item);
    }
}

/// What is to be given back before a second call is made.
pub(crate) struct Restoring {
    kept: Kept,
    arguments: Vec<Argument>,
}

impl Restoring {
    /// Emits that.
    pub(super) fn emit(&self, code: &mut Emitter) {
        self.kept.restore(code, &self.arguments);
    }
}

/// In which order arguments can be put into their registers, so that addresses are made of
/// registers as the program has them; and which have to be put into memory before.
fn order<'a>(
    left: Vec<values::Numbered<'a>>,
) -> (Vec<values::Numbered<'a>>, Vec<values::Numbered<'a>>) {
    // What was saved can be had from there.
    let made_of = |argument: &Argument| match argument {
        Argument::Register(_) => 0,
        argument => values::reads(argument),
    };
    let (mut left, others): (Vec<_>, Vec<_>) = left
        .into_iter()
        .partition(|(_, argument)| made_of(argument) != 0);
    let (mut ordered, mut before) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        let free = left.iter().position(|&(number, _)| {
            let to = 1 << values::REGISTERS[number];
            left.iter().all(|(_, argument)| made_of(argument) & to == 0)
        });
        match free {
            Some(place) => ordered.push(left.remove(place)),
            None => before.push(left.remove(0)),
        }
    }
    ordered.extend(others);
    (ordered, before)
}

impl Kept {
    fn save(&self, code: &mut Emitter) {
        for register in numbers(self.general) {
            code.store_slot(CallSlots::kept(register), register);
        }
        if self.stack {
            code.store_slot(CallSlots::kept(gpr::RSP), gpr::RSP);
        }
        keep_vectors(code, self.vectors);
        if self.flags {
            code.take_flags();
            code.store_slot(CallSlots::KEPT_FLAGS, gpr::RAX);
        }
    }

    /// With what a function has made of registers that it may change.
    fn restore(&self, code: &mut Emitter, arguments: &[Argument]) {
        if self.flags {
            code.load_slot(gpr::RAX, CallSlots::KEPT_FLAGS);
            code.bring_back_flags();
        }
        give_back_vectors(code, self.vectors);
        let mut general = self.general;
        if self.stack {
            general |= 1 << gpr::RSP;
        }
        give_back_changeable(code, arguments, &mut general);
        for register in numbers(general) {
            code.load_slot(register, CallSlots::kept(register));
        }
    }
}

/// Loads registers with what a function has made of them, and takes them from a mask.
pub(super) fn give_back_changeable(code: &mut Emitter, arguments: &[Argument], mask: &mut u16) {
    for (number, argument) in arguments.iter().enumerate() {
        if let Argument::Changeable(register) = argument {
            load_changed(code, *register, number);
            *mask &= !(1 << register);
        }
    }
}

/// Emits the loading of a register with what a function has made of it.
pub(super) fn load_changed(code: &mut Emitter, register: Gpr, number: usize) {
    code.load_slot(register, values::slot(number));
    if register == TARGET {
        code.keep_target();
    }
}

/// Emits the saving of low halves of vector registers.
pub(super) fn keep_vectors(code: &mut Emitter, mask: u16) {
    numbers(mask).for_each(|vector| move_vector(code, 0x11, vector));
}

/// Emits their restoring.
pub(super) fn give_back_vectors(code: &mut Emitter, mask: u16) {
    numbers(mask).for_each(|vector| move_vector(code, 0x10, vector));
}

/// `movups` between a vector register and its place; opcode 0x11 stores, 0x10 loads.
fn move_vector(code: &mut Emitter, opcode: u8, vector: u8) {
    let rex = 0x40 | (vector >> 3) << 2;
    let place = CallSlots::KEPT_VECTORS + 64 * i32::from(vector);
    code.on_slot(&[rex, 0x0f, opcode], vector & 7, place);
}
