//! Entries for the elements of gathers and scatters, and of what else vectors access under a mask.
//!
//! Before the instruction, which may change them, the mask, as a bit for each element, and the
//! indexes go to slots. Behind it, where it has completed, a loop over the bits that are set stores
//! an entry for each, and the position moves at once, so that what the path stores later is still
//! relative to it. For operands of other shapes functions do that, at some hundred times the cost.

use iced_x86::Register;
use unspool_code_cache::emit::{Address, Vector, gpr};
use unspool_instructions::operands::ElementMask;

use super::wide_vectors::{self, Wide};
use super::{Translation, appends, calls, observed};
use crate::action::{Accessed, VectorElements};
use crate::slots::offset as tool_offset;
use crate::{Argument, EachAccess};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;

/// Conditions, as opcodes have them.
const ZERO: u8 = 4;
const NOT_ZERO: u8 = 5;

/// Emits what is to be done before the instruction. No flag is changed.
pub(super) fn keep(translation: &mut Translation, item: &Item, elements: &VectorElements) {
    let walk = &mut *translation.walk;
    match elements.mask {
        ElementMask::All => {}
        ElementMask::Bits(register) => {
            let (code, number) = (&mut walk.builder.code, register.number() as u8);
            observed::store_mask(code, number, tool_offset::ELEMENT_MASK);
        }
        ElementMask::Vector { register, size } => {
            let uses = item.uses();
            let [mask] = walk.take_registers(1 << gpr::RSP | uses.read | uses.written);
            let Wide { register, bytes } = wide(register);
            let number = register;
            let code = &mut walk.builder.code;
            code.load_signs(mask, Vector { number, bytes }, size);
            code.store_slot(tool_offset::ELEMENT_MASK, mask);
        }
    }
    if let Some(indexes) = elements.indexes {
        let (code, indexes) = (&mut walk.builder.code, wide(indexes.register));
        wide_vectors::store_slot(code, tool_offset::ELEMENT_INDEXES, indexes);
    }
}

fn wide(register: Register) -> Wide {
    Wide {
        register: register.number() as u8,
        bytes: register.size() as u8,
    }
}

/// Emits the entries, behind the instruction.
pub(super) fn emit(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    each: &EachAccess,
    elements: &VectorElements,
) {
    let (buffer, size) = (each.buffer, each.size);
    let start = translation.own.find_room(item, buffer, size);
    let position = appends::position(buffer.index());
    let walk = &mut *translation.walk;
    let fields = || each.operands.iter().flat_map(|(_, fields)| fields);
    let of_address = calls::registers(&Argument::Address(elements.plain()));
    let read = fields().fold(of_address, |mask, field| {
        mask | calls::registers(&field.value)
    });
    // What is borrowed and given back must not depend on the mask, so it is here.
    walk.borrowed.take_flags(&mut walk.builder, flags_live);
    walk.give_back(read);
    let entry = walk.begin_entry(position, start, read);
    let entry = entry.expect("entries for elements read few registers");
    let avoided = read | walk.bound();
    let taken = 1 << entry.spare();
    let mask = walk
        .borrowed
        .take_another(&mut walk.builder, avoided, taken);
    let mask = mask.expect("entries for elements read few registers");

    let code = &mut walk.builder.code;
    load_address(code, entry.spare(), &elements.plain());
    code.store_slot(tool_offset::ELEMENT_BASE, entry.spare());
    match elements.mask {
        ElementMask::All => code.load_immediate(mask, u64::MAX),
        _ => code.load_slot(mask, tool_offset::ELEMENT_MASK),
    }
    code.keep_lowest_bits(mask, elements.count);
    code.test_mask(mask);
    let over = code.jump_forward_if(ZERO);
    match elements.accessed {
        Accessed::Chosen => {}
        Accessed::FirstIfAny => code.load_immediate(mask, 1),
        Accessed::AsMany => code.pack_bits(mask, entry.spare()),
    }
    let next = code.here();
    for field in fields() {
        let at = i32::from(field.offset);
        match field.value {
            Argument::ElementSize => {
                let bytes = u64::from(elements.plain().size);
                entry.store_constant(&mut walk.builder.code, at, bytes, field.size);
            }
            Argument::ElementAddress => {
                let (code, address) = (&mut walk.builder.code, entry.spare());
                code.lowest_bit(address, mask);
                if let Some(indexes) = elements.indexes {
                    let slot = tool_offset::ELEMENT_INDEXES;
                    code.load_slot_element(address, address, slot, indexes.size);
                }
                let distance = Address {
                    base: None,
                    index: Some((address, elements.scale())),
                    displacement: 0,
                };
                code.lea_address(address, distance, false);
                code.add_slot(address, tool_offset::ELEMENT_BASE);
                entry.store(code, at, address, field.size);
            }
            _ => appends::store(walk, item, entry, field),
        }
    }
    walk.advance(position, size.into());
    let code = &mut walk.builder.code;
    code.clear_lowest_bit(mask, entry.spare());
    code.jump_if(NOT_ZERO, next);
    code.land(over);
}
