//! Words that are put into slots of the thread right before what they are wanted for, because finding
//! them out takes more than a move: values of operands, flags, what is on top of the stack, mask
//! registers and MXCSR.

use unspool_code_cache::emit::{Address, Emitter, gpr};
use unspool_code_cache::slots::offset;
use unspool_engine::translate::superblock::Item;
use unspool_engine::translate::walk::Walk;
use unspool_instructions::operands::state_component::OPMASK;

use super::{Translation, memory_values};
use crate::process::process;
use crate::slots::offset as tool_offset;
use crate::{Action, Argument};

/// The slot of a word, if it is one of these.
pub(super) fn slot(argument: &Argument) -> Option<i32> {
    match *argument {
        Argument::MemoryValue(number) => Some(memory_values::slot(number)),
        Argument::Flags => Some(tool_offset::FLAGS),
        Argument::StackTop => Some(tool_offset::STACK_TOP),
        Argument::VectorControl => Some(tool_offset::VECTOR_CONTROL),
        Argument::Mask(number) => Some(tool_offset::MASKS + 8 * i32::from(number)),
        Argument::FsBase => Some(offset::PROGRAM_FS),
        _ => None,
    }
}

/// Whether an action wants such words.
pub(super) fn are_wanted(action: &Action) -> bool {
    action.words().any(|word| slot(word).is_some())
}

/// Emits what puts the words into their slots that an action wants.
pub(super) fn prepare(translation: &mut Translation, item: &Item, action: &Action) {
    memory_values::load(translation, item, action);
    let mut done = Vec::new();
    for word in action.words() {
        if done.contains(word) {
            continue;
        }
        match *word {
            Argument::Flags => store_flags(translation.walk),
            Argument::StackTop => load_stack_top(translation, item),
            Argument::VectorControl => {
                let code = &mut translation.walk.builder.code;
                code.on_slot(&[0x0f, 0xae], 3, tool_offset::VECTOR_CONTROL); // stmxcsr fs:[slot]
            }
            Argument::Mask(number) => {
                let slot = tool_offset::MASKS + 8 * i32::from(number);
                store_mask(&mut translation.walk.builder.code, number, slot);
            }
            _ => continue,
        }
        done.push(*word);
    }
}

/// The flags go by way of the engine's stack: below the program's there may be no room.
fn store_flags(walk: &mut Walk) {
    walk.borrowed.give_back_flags(&mut walk.builder);
    let code = &mut walk.builder.code;
    code.store_slot(tool_offset::STACK_POINTER, gpr::RSP);
    code.load_slot(gpr::RSP, offset::HOST_STACK);
    code.bytes(&[0x9c]); // pushfq
    code.on_slot(&[0x8f], 0, tool_offset::FLAGS); // pop qword fs:[slot]
    code.load_slot(gpr::RSP, tool_offset::STACK_POINTER);
    walk.borrowed.take_flags(&mut walk.builder, true);
    let code = &mut walk.builder.code;
    code.on_slot(&[0x48, 0x81], 4, tool_offset::FLAGS); // and qword fs:[slot], imm32
    code.imm32(SHOWN_FLAGS);
}

/// The status flags and the direction flag.
const SHOWN_FLAGS: i32 = 0xcd5;

fn load_stack_top(translation: &mut Translation, item: &Item) {
    let walk = &mut *translation.walk;
    let uses = item.uses();
    let [register] = walk.take_registers(1 << gpr::RSP | uses.read | uses.written);
    let code = &mut walk.builder.code;
    code.store_slot_constant(tool_offset::STACK_TOP, 0);
    let start = code.here();
    code.load_at(register, Address::at(gpr::RSP, 0), 8);
    code.store_slot(tool_offset::STACK_TOP, register);
    let end = code.here();
    translation.own.looks.push(start..end);
}

/// Puts a mask register into a slot.
pub(super) fn store_mask(code: &mut Emitter, number: u8, slot: i32) {
    if process().is_none_or(|it| it.vectors.mask & 1 << OPMASK == 0) {
        code.store_slot_constant(slot, 0);
        return;
    }
    if std::arch::is_x86_feature_detected!("avx512bw") {
        code.on_slot(&[0xc4, 0xe1, 0xf8, 0x91], number, slot); // kmovq fs:[slot], k
    } else {
        code.store_slot_constant(slot, 0);
        code.on_slot(&[0xc5, 0xf8, 0x91], number, slot); // kmovw fs:[slot], k
    }
}
