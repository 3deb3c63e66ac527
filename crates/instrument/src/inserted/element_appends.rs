//! Entries for the elements of gathers, and of moves under a mask in a vector register.
//!
//! Before the instruction, which changes them, the mask and the indexes go to slots. Behind it, where it
//! has completed, an entry is stored for each element that the mask chooses, and the position
//! moves at once, so that what the path stores later is still relative to it. For operands of
//! other shapes functions do that, at some hundred times the cost.

use iced_x86::Register;

use super::wide_vectors::{self, Wide};
use super::{Translation, appends, calls};
use crate::action::VectorElements;
use crate::slots::offset as tool_offset;
use crate::{Argument, EachAccess};
use unspool_engine::translate::superblock::Item;

/// The condition, as opcodes have it: the highest bit is not set.
const NOT_NEGATIVE: u8 = 9;

/// Emits what is to be done before the instruction. No register is changed, and no flag.
pub(super) fn keep(translation: &mut Translation, elements: &VectorElements) {
    let code = &mut translation.walk.builder.code;
    if let Some((mask, _)) = elements.mask {
        wide_vectors::store_slot(code, tool_offset::ELEMENT_MASK, wide(mask));
    }
    if let Some(indexes) = elements.indexes {
        let indexes = wide(indexes.register);
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
    if elements.mask.is_some() {
        walk.borrowed.take_flags(&mut walk.builder, flags_live);
    }
    walk.give_back(read);
    let entry = walk.begin_entry(position, start, read);
    let entry = entry.expect("entries for elements read few registers");
    for number in 0..elements.count {
        let code = &mut walk.builder.code;
        let over = elements.mask.map(|(_, mask_size)| {
            let highest = (i32::from(number) + 1) * i32::from(mask_size) - 1;
            code.on_slot(&[0x80], 7, tool_offset::ELEMENT_MASK + highest); // cmp byte fs:[…], 0
            code.bytes(&[0]);
            code.jump_forward_if(NOT_NEGATIVE)
        });
        for field in fields() {
            let at = i32::from(field.offset);
            let code = &mut walk.builder.code;
            match field.value {
                Argument::ElementSize => {
                    entry.store_constant(code, at, elements.plain().size.into(), field.size);
                }
                Argument::ElementAddress => {
                    let element = match elements.indexes {
                        None => elements.adjacent(number),
                        Some(indexes) => {
                            let distance = i32::from(number) * i32::from(indexes.size);
                            let slot = tool_offset::ELEMENT_INDEXES + distance;
                            match indexes.size {
                                4 => code.load_slot_signed(entry.spare(), slot),
                                _ => code.load_slot(entry.spare(), slot),
                            }
                            let spare = Register::RAX + u32::from(entry.spare());
                            elements.indexed(indexes, spare)
                        }
                    };
                    entry.store_address(code, at, &element, field.size);
                }
                _ => appends::store(walk, item, entry, field),
            }
        }
        walk.advance(position, size.into());
        if let Some(over) = over {
            walk.builder.code.land(over);
        }
    }
}
