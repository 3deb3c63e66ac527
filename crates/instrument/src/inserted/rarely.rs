//! Calls that are made rarely: behind a countdown, or behind a test of shadow memory.
//!
//! What decides is inlined. Where flags are live, it changes none: it ends in a `jrcxz`. The call
//! itself is an ordinary one, away from the straight path ([`rare_call`]).

use iced_x86::Register;
use unspool_code_cache::emit::{Emitter, Gpr, gpr};
use unspool_instructions::operands::MemoryOperand;

use super::{Translation, calls, rare_call};
use crate::slots::offset as tool_offset;
use crate::{AnalysisCall, Argument, SamplerId, Shadow};
use unspool_engine::translate::insertion::borrowed::{Borrowed, Content};
use unspool_engine::translate::insertion::detour::Jumps;
use unspool_engine::translate::insertion::shadow::ShadowLayout;
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;
use unspool_engine::translate::walk::Walk;

/// Conditions, as opcodes have them.
const EQUAL: u8 = 4;
const NOT_EQUAL: u8 = 5;

/// How many bits addresses of user mode have.
const ADDRESS_BITS: u8 = 47;

/// Emits a call that is made when a countdown ends.
pub(super) fn sampled(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    sampler: SamplerId,
    call: &AnalysisCall,
) {
    let countdown = tool_offset::COUNTDOWNS + 8 * sampler.index() as i32;
    let walk = &mut *translation.walk;
    let jump = if walk.flags_are_free(flags_live) {
        let code = &mut walk.builder.code;
        code.add_to_slot(countdown, -1);
        code.jump_forward_if(EQUAL)
    } else {
        walk.take_register(gpr::RCX, 0);
        let code = &mut walk.builder.code;
        code.load_slot(gpr::RCX, countdown);
        code.lea(gpr::RCX, gpr::RCX, -1);
        code.store_slot(countdown, gpr::RCX);
        // Over the short jump.
        code.bytes(&[0xe3, 2, 0xeb, 5]);
        code.jump_forward()
    };
    let jumps = Jumps::from_slice(&[jump]);
    rare_call::put_off(translation, (item, flags_live), jumps, call, Some(sampler));
}

/// Emits a call that is made where shadow memory is not as expected.
pub(super) fn watched(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    (shadow, expected): (Shadow, u8),
    operand: &MemoryOperand,
    call: &AnalysisCall,
) {
    let layout = ShadowLayout {
        base: shadow.base(),
        shift: shadow.shift() as u8,
        bits: Some(ADDRESS_BITS - shadow.shift() as u8),
        word: 1,
    };
    let walk = &mut *translation.walk;
    let read = calls::registers(&Argument::Address(*operand));
    walk.give_back(read);
    let touched = read | item.uses().read | item.uses().written;
    let by_all = touched | walk.bound() | translation.own.touched;
    let touched = match Borrowed::available(by_all) >= MOST_TAKEN {
        true => by_all,
        false => touched,
    };
    let jumps = match walk.flags_are_free(flags_live) {
        true => compare(walk, layout, expected, (operand, touched)),
        false => compare_keeping_flags(walk, layout, expected, (operand, touched)),
    };
    rare_call::put_off(translation, (item, flags_live), jumps, call, None);
}

/// How many registers a test takes at most.
const MOST_TAKEN: usize = 2;

/// Emits the comparison of an operand's shadow bytes. Returns jumps that are taken if one differs.
fn compare(
    walk: &mut Walk,
    layout: ShadowLayout,
    expected: u8,
    (operand, touched): (&MemoryOperand, u16),
) -> Jumps {
    let base = with_base(walk, layout, touched);
    let [number] = walk.take_registers(touched | 1 << base);
    let code = &mut walk.builder.code;
    let pieces = distances(operand.size, layout.shift);
    let compare = |distance| {
        load_piece(code, number, operand, distance);
        let word = layout.find(code, number, Some(base));
        code.compare_constant_at(word.at(0), expected);
        code.jump_forward_if(NOT_EQUAL)
    };
    pieces.map(compare).collect()
}

/// A register with the base of shadow memory, which stays there for tests further on.
fn with_base(walk: &mut Walk, layout: ShadowLayout, touched: u16) -> Gpr {
    let content = Content::Constant(layout.base);
    if let Some(held) = walk.borrowed.with_content(content, touched) {
        return held;
    }
    let avoided = touched | walk.bound();
    let taken = walk.borrowed.take_one(&mut walk.builder, avoided);
    let base = taken.expect("an instruction touches six registers at most");
    content.load(&mut walk.builder.code, base);
    walk.borrowed.keep_content(base, content);
    base
}

/// The same without a change of the flags.
fn compare_keeping_flags(
    walk: &mut Walk,
    layout: ShadowLayout,
    expected: u8,
    (operand, touched): (&MemoryOperand, u16),
) -> Jumps {
    let [number] = walk.take_registers(touched | 1 << gpr::RCX);
    walk.take_register(gpr::RCX, 1 << number);
    let program = walk.borrowed.slot_of(gpr::RCX);
    let reads_it = calls::registers(&Argument::Address(*operand)) & 1 << gpr::RCX != 0;
    let code = &mut walk.builder.code;
    let mut differing = Jumps::new();
    for (place, distance) in distances(operand.size, layout.shift).enumerate() {
        if let Some(slot) = program.filter(|_| reads_it && place != 0) {
            code.load_slot(gpr::RCX, slot);
        }
        load_piece(code, number, operand, distance);
        layout.find_keeping_flags(code, number, gpr::RCX);
        layout.load_base(code, gpr::RCX);
        code.load_byte_indexed(gpr::RCX, gpr::RCX, number);
        if expected != 0 {
            code.lea(gpr::RCX, gpr::RCX, -i32::from(expected));
        }
        code.bytes(&[0xe3, 5]); // jrcxz over the jump
        differing.push(code.jump_forward());
    }
    differing
}

/// How far behind an operand's address the bytes are whose granules are looked at: each granule that
/// the operand may touch is.
fn distances(size: u32, shift: u8) -> impl Iterator<Item = u32> {
    let last = size.saturating_sub(1);
    let step = 1 << shift;
    (0..last.max(1))
        .step_by(step)
        .chain((last != 0).then_some(last))
}

/// Emits the address of one of these bytes. (What is no address has a place in the shadow, too: the
/// access will fault, not the test.)
fn load_piece(code: &mut Emitter, to: Gpr, operand: &MemoryOperand, distance: u32) {
    let there = operand.displacement + i64::from(distance);
    let is_sum = operand.base != Register::None && !operand.address_size_32;
    if is_sum && i32::try_from(there).is_ok() {
        let operand = MemoryOperand {
            displacement: there,
            ..*operand
        };
        load_address(code, to, &operand);
        return;
    }
    load_address(code, to, operand);
    if distance != 0 {
        code.lea(to, to, distance as i32);
    }
}
