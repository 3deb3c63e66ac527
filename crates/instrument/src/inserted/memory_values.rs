//! Values of operands in memory: what an instruction is about to read, and what it has written.
//!
//! A value is loaded into a slot of the thread right before what it is wanted for. Before the
//! instruction, a fault of that load is the program's, at the instruction, as it would come next: so
//! the operand is named by the same registers, of which the stack pointer and the frame pointer make
//! another signal of an address that is none. Behind the instruction no fault is due. If another
//! thread has taken the memory away since, the value is 0.
//!
//! Where an instruction changes registers of which the address of an operand is made that it writes,
//! the address is kept in another slot meanwhile. No signal is delivered between an instruction and
//! what is inserted behind it, so nobody else uses the slots.

use iced_x86::Register;
use unspool_code_cache::emit::{Address, Gpr};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;
use unspool_engine::translate::walk::Walk;
use unspool_events::AccessKind;
use unspool_instructions::decode::Kind;
use unspool_instructions::operands::MemoryOperand;

use super::Translation;
use crate::slots::offset as tool_offset;
use crate::{Action, MOST_MEMORY_VALUES};

/// The slot of the value of an operand.
pub(super) fn slot(number: u8) -> i32 {
    tool_offset::MEMORY_VALUES + 8 * i32::from(number)
}

/// The slot of its address.
fn address_slot(number: u8) -> i32 {
    tool_offset::MEMORY_ADDRESSES + 8 * i32::from(number)
}

/// The operands that a mask says, with their numbers. They are not found out for an empty mask.
fn operands(item: &Item, mask: u8) -> impl Iterator<Item = (u8, &MemoryOperand)> {
    let all = match mask {
        0 => &[],
        _ => item.operands(),
    };
    let all = (0..MOST_MEMORY_VALUES as u8).zip(all);
    all.filter(move |(number, _)| mask & 1 << number != 0)
}

/// Emits what puts the values into their slots that an action wants.
pub(super) fn load(translation: &mut Translation, item: &Item, action: &Action) {
    for (number, operand) in operands(item, action.memory_values()) {
        match operand.kind {
            AccessKind::Read => load_read(translation.walk, item, (number, operand)),
            AccessKind::Write if translation.own.completed => {
                load_written(translation, item, (number, operand));
            }
            AccessKind::Write => store_pushed(translation.walk, item, number),
        }
    }
}

/// Emits what keeps addresses for what is wanted behind the instruction.
pub(super) fn keep_addresses(translation: &mut Translation, item: &Item, behind: &[Action]) {
    let wanted = behind.iter().fold(0, |mask, it| mask | it.memory_values());
    for (number, operand) in operands(item, wanted) {
        if is_address_lost(item, operand) {
            let walk = &mut *translation.walk;
            let register = take(walk, item, operand);
            let code = &mut walk.builder.code;
            load_address(code, register, operand);
            code.store_slot(address_slot(number), register);
        }
    }
}

/// Whether an instruction changes what the address of an operand is made of.
fn is_address_lost(item: &Item, operand: &MemoryOperand) -> bool {
    item.uses().written & reads(operand) != 0
}

/// Which general registers an operand's address is made of.
pub(super) fn reads(operand: &MemoryOperand) -> u16 {
    [operand.base, operand.index]
        .into_iter()
        .map(|register| register.full_register())
        .filter(|register| register.is_gpr64())
        .fold(0, |mask, register| mask | 1 << register.number())
}

/// A register for the value or address of an operand, whose own are in place.
fn take(walk: &mut Walk, item: &Item, operand: &MemoryOperand) -> Gpr {
    let reads = reads(operand);
    walk.give_back(reads);
    let uses = item.uses();
    let [register] = walk.take_registers(reads | uses.read | uses.written);
    register
}

fn load_read(walk: &mut Walk, item: &Item, (number, operand): (u8, &MemoryOperand)) {
    let register = take(walk, item, operand);
    let address = address_of(walk, operand, register);
    let code = &mut walk.builder.code;
    code.load_at(register, address, operand.size as u8);
    code.store_slot(slot(number), register);
}

fn load_written(
    translation: &mut Translation,
    item: &Item,
    (number, operand): (u8, &MemoryOperand),
) {
    let walk = &mut *translation.walk;
    let register = take(walk, item, operand);
    let address = match is_address_lost(item, operand) {
        true => {
            walk.builder.code.load_slot(register, address_slot(number));
            Address::at(register, 0)
        }
        false => address_of(walk, operand, register),
    };
    let code = &mut walk.builder.code;
    code.store_slot_constant(slot(number), 0);
    let start = code.here();
    code.load_at(register, address, operand.size as u8);
    code.store_slot(slot(number), register);
    let end = code.here();
    translation.own.looks.push(start..end);
}

/// Only calls write before what is inserted behind them: the address to which they return.
fn store_pushed(walk: &mut Walk, item: &Item, number: u8) {
    assert!(
        matches!(item.layout.kind, Kind::CallDirect | Kind::CallIndirect),
        "what only a call writes before it goes on"
    );
    let next = item.pc + u64::from(item.layout.length);
    let code = &mut walk.builder.code;
    code.store_slot_constant(slot(number), next);
}

/// An operand as it is to be named, for which a register may be changed.
fn address_of(walk: &mut Walk, operand: &MemoryOperand, register: Gpr) -> Address {
    let number = |register: Register| register.full_register().number() as Gpr;
    let is_absolute = operand.base == Register::None && operand.index == Register::None;
    let is_sum = is_absolute
        || operand.segment.is_some()
        || operand.address_size_32
        || operand.index == Register::AL;
    if is_sum {
        load_address(&mut walk.builder.code, register, operand);
        return Address::at(register, 0);
    }
    let (base, index) = (operand.base, operand.index);
    Address {
        base: (base != Register::None).then(|| number(base)),
        index: (index != Register::None).then(|| (number(index), operand.scale)),
        displacement: operand.displacement as i32,
    }
}
