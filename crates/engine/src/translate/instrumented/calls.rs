//! Calls of a tool's functions.

use super::Translation;
use super::scratch::Scratch;
use crate::decode::Kind;
use crate::emit::{Emitter, Gpr};
use crate::instrument::{Action, Argument};
use crate::slots::offset;
use crate::translate::record::load_address;
use crate::translate::superblock::Item;

/// Emits the calls among some actions. Nothing in them changes flags.
pub(super) fn emit(translation: &mut Translation, item: &Item, actions: &[Action]) {
    for action in actions {
        if let Action::Call {
            function,
            arguments,
        } = action
        {
            let arguments: Vec<Argument> = arguments.iter().map_while(|it| *it).collect();
            emit_call(translation, item, *function as usize as u64, &arguments);
        }
    }
}

fn emit_call(translation: &mut Translation, item: &Item, function: u64, arguments: &[Argument]) {
    let touched = arguments
        .iter()
        .fold(0, |mask, argument| mask | registers(argument));
    let scratch = Scratch::without(touched);
    let [register, _] = scratch.registers;
    let gate = translation.cache.gates.call;
    let code = &mut translation.builder.code;
    for (borrowed, slot) in scratch.borrowed(1) {
        code.store_slot(slot, borrowed);
    }
    for (number, argument) in (0..).zip(arguments) {
        let slot = offset::ARGUMENTS + 8 * number;
        match argument {
            Argument::Constant(value) => store_constant(code, slot, *value, register),
            Argument::Register(value) => code.store_slot(slot, *value),
            Argument::Address(operand) => {
                load_address(code, register, operand);
                code.store_slot(slot, register);
            }
            Argument::Taken => {
                let Kind::Jcc { condition } = item.layout.kind else {
                    panic!("only a conditional jump before which a call is made may be taken");
                };
                store_constant(code, slot, 0, register);
                code.on_slot(&[0x0f, 0x90 | condition], 0, slot); // setcc
            }
        }
    }
    code.load_immediate(register, function);
    code.store_slot(offset::FUNCTION, register);
    for (borrowed, slot) in scratch.borrowed(1) {
        code.load_slot(borrowed, slot);
    }
    // mov qword fs:[target], imm32: where to go on, which is known behind the jump only.
    code.on_slot(&[0x48, 0xc7], 0, offset::TARGET);
    let field = code.here();
    code.imm32(0);
    code.jump(gate);
    let back = code.here();
    code.patch32(field, back as i32);
}

/// Which general registers an argument reads.
pub(super) fn registers(argument: &Argument) -> u16 {
    match argument {
        Argument::Constant(_) | Argument::Taken => 0,
        Argument::Register(number) => 1 << number,
        Argument::Address(operand) => [operand.base, operand.index]
            .into_iter()
            .map(|register| register.full_register())
            .filter(|register| register.is_gpr64())
            .fold(0, |mask, register| mask | 1 << register.number()),
    }
}

fn store_constant(code: &mut Emitter, slot: i32, value: u64, scratch: Gpr) {
    match i32::try_from(value as i64) {
        Ok(short) => {
            code.on_slot(&[0x48, 0xc7], 0, slot);
            code.imm32(short);
        }
        Err(_) => {
            code.load_immediate(scratch, value);
            code.store_slot(slot, scratch);
        }
    }
}
