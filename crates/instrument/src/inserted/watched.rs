//! Tests whether accesses touch memory that somebody watches.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::{Address, Emitter};
use unspool_code_cache::gates::CallSlots;
use unspool_events::AccessKind;
use unspool_instructions::operands::{MemoryOperand, Shape};

use super::{Translation, calls};
use crate::watcher::{AccessExtent, Watcher, watcher};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;

/// Emits the tests of an instruction's accesses, before it.
pub(super) fn emit(translation: &mut Translation, item: &Item) {
    let Some(watcher) = watcher() else {
        return;
    };
    for operand in item.operands() {
        let ranges = watcher.ranges(operand.kind == AccessKind::Write);
        if !ranges.is_empty() {
            test(translation, item, operand, (watcher, &ranges));
        }
    }
}

fn test(
    translation: &mut Translation,
    item: &Item,
    operand: &MemoryOperand,
    (watcher, ranges): (&dyn Watcher, &[(u64, u64)]),
) {
    let size = u64::from(operand.size);
    let (extent, register, narrow) = match operand.shape {
        Shape::Plain => (AccessExtent::Bytes(size), None, false),
        Shape::Masked { count, .. } | Shape::Compressed { count, .. } => {
            (AccessExtent::Bytes(size * u64::from(count)), None, false)
        }
        Shape::AnyOf { .. } => (AccessExtent::Bytes(size), None, false),
        Shape::Repeat { count, .. } => {
            let narrow = count == iced_x86::Register::ECX;
            (AccessExtent::Repeated(size), Some(count), narrow)
        }
        Shape::BitString { number } => (AccessExtent::BitString(size), Some(number), false),
        Shape::AlignedDown => (AccessExtent::Around(size), None, false),
        Shape::Indexed { .. } | Shape::Tile { .. } => (AccessExtent::Anywhere, None, false),
    };
    let walk = &mut *translation.walk;
    walk.give_back_all();
    let touched = item.uses().read | item.uses().written;
    let [address, other] = walk.take_registers(touched);
    if let AccessExtent::Bytes(_) = extent {
        let live = item.flags_live;
        walk.borrowed.take_flags(&mut walk.builder, live);
    }
    let gate = walk.cache.gates.call;
    let borrowed = walk.borrowed;
    let code = &mut walk.builder.code;
    match extent {
        AccessExtent::Anywhere => code.load_immediate(address, 0),
        _ => load_address(code, address, operand),
    }
    code.store_slot(CallSlots::ARGUMENTS, address);
    if let Some(register) = register {
        let number = register.full_register().number() as u8;
        code.store_slot(CallSlots::ARGUMENTS + 8, number);
    }
    // Only for these is it known here how long they are.
    let mut over = None;
    if let AccessExtent::Bytes(size) = extent {
        let mut hits = Vec::new();
        for &(first, last) in ranges {
            // An access that begins up to `size` - 1 bytes before touches the first byte.
            let start = first.wrapping_sub(size - 1);
            code.load_immediate(other, start.wrapping_neg());
            let sum = Address {
                base: Some(other),
                index: Some((address, 1)),
                displacement: 0,
            };
            code.lea_address(other, sum, false);
            hits.push(jump_if_at_most(
                code,
                other,
                address,
                last.wrapping_sub(start),
            ));
            if ranges.len() > 1 {
                code.load_slot(address, CallSlots::ARGUMENTS);
            }
        }
        borrowed.restore(code);
        over = Some(code.jump_forward());
        for hit in hits {
            code.land(hit);
        }
    }
    let word = extent.to_word(operand.kind == AccessKind::Write);
    for (argument, value) in [(2, word), (3, u64::from(narrow))] {
        code.load_immediate(other, value);
        code.store_slot(CallSlots::ARGUMENTS + 8 * argument, other);
    }
    code.load_immediate(other, watcher.may_touch() as *const () as u64);
    code.store_slot(CallSlots::FUNCTION, other);
    // What is called finds all program state in place.
    translation.restore();
    let code = &mut translation.walk.builder.code;
    calls::jump_to_call_gate(code, gate);
    translation.spill();
    if let Some(over) = over {
        translation.walk.builder.code.land(over);
    }
}

/// Emits a comparison and the field of a jump that is taken if `value` is at most `bound`. Changes
/// `spare` where the bound does not fit into the instruction.
fn jump_if_at_most(code: &mut Emitter, value: u8, spare: u8, bound: u64) -> CacheAddress {
    match i32::try_from(bound) {
        Ok(bound) => {
            code.bytes(&[0x48 | value >> 3, 0x81, 0xf8 | value & 7]); // cmp value, imm32
            code.imm32(bound);
        }
        Err(_) => {
            code.load_immediate(spare, bound);
            let prefix = 0x48 | (spare >> 3) << 2 | value >> 3;
            code.bytes(&[prefix, 0x39, 0xc0 | (spare & 7) << 3 | value & 7]); // cmp value, spare
        }
    }
    code.bytes(&[0x0f, 0x86]); // jbe
    let field = code.here();
    code.imm32(0);
    field
}
