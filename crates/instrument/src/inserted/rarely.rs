//! Calls that are made rarely: behind a countdown, or behind a test of shadow memory.
//!
//! What decides is inlined and changes no flags: it ends in a `jrcxz`. The call itself is an
//! ordinary one.

use unspool_code_cache::emit::{Emitter, Gpr, gpr};
use unspool_code_cache::slots::offset;
use unspool_instructions::operands::MemoryOperand;

use super::scratch::{FIRST_SPILL, Scratch};
use super::{Translation, calls};
use crate::slots::offset as tool_offset;
use crate::{Action, Call, SamplerId, Shadow};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;

/// Where the program's rcx is meanwhile.
const RCX: i32 = offset::spill(FIRST_SPILL);

/// The bits of a word that no address of user mode has set.
const UNUSED_BITS: u64 = 17;

/// Emits a call that is made when a countdown ends.
pub(super) fn sampled(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    sampler: SamplerId,
    call: &Call,
) {
    let code = &mut translation.walk.builder.code;
    let countdown = tool_offset::COUNTDOWNS + 8 * sampler.index() as i32;
    code.store_slot(RCX, gpr::RCX);
    code.load_slot(gpr::RCX, countdown);
    code.lea(gpr::RCX, gpr::RCX, -1);
    code.store_slot(countdown, gpr::RCX);
    let ended = jump_if_rcx_is_zero(code);
    code.load_slot(gpr::RCX, RCX);
    let over = code.jump_forward();
    code.land_short(ended);
    code.load_slot(gpr::RCX, RCX);
    code.store_slot_imm32(tool_offset::SAMPLER, sampler.index() as u32);
    translation.call_now(item, &[Action::Call(call.clone())], flags_live);
    translation.walk.builder.code.land(over);
}

/// Emits a call that is made where shadow memory is not as expected.
pub(super) fn watched(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    (shadow, expected): (Shadow, u8),
    operand: &MemoryOperand,
    call: &Call,
) {
    let bound = translation.walk.bound();
    let address = calls::registers(&crate::Argument::Address(*operand));
    let scratch = Scratch::without(address | bound | 1 << gpr::RCX);
    let sum = scratch.registers[0];
    let kept = offset::spill(super::scratch::SECOND_SPILL);
    let code = &mut translation.walk.builder.code;
    code.store_slot(RCX, gpr::RCX);
    code.store_slot(kept, sum);
    let mut differing = Vec::new();
    let uses_rcx = address & 1 << gpr::RCX != 0;
    for (number, distance) in distances(operand.size, shadow).enumerate() {
        if uses_rcx && number != 0 {
            code.load_slot(gpr::RCX, RCX);
        }
        load_shadow(code, shadow, operand, distance, sum);
        if expected != 0 {
            code.lea(gpr::RCX, gpr::RCX, -i32::from(expected));
        }
        let same = jump_if_rcx_is_zero(code);
        differing.push(code.jump_forward());
        code.land_short(same);
    }
    code.load_slot(sum, kept);
    code.load_slot(gpr::RCX, RCX);
    let over = code.jump_forward();
    for jump in differing {
        code.land(jump);
    }
    code.load_slot(sum, kept);
    code.load_slot(gpr::RCX, RCX);
    translation.call_now(item, &[Action::Call(call.clone())], flags_live);
    translation.walk.builder.code.land(over);
}

/// How far behind an operand's address the bytes are whose granules are looked at: each granule that
/// the operand may touch is.
fn distances(size: u32, shadow: Shadow) -> impl Iterator<Item = u32> {
    let last = size.saturating_sub(1);
    let step = 1 << shadow.shift();
    (0..last.max(1))
        .step_by(step)
        .chain((last != 0).then_some(last))
}

/// Emits the load of a shadow byte into rcx.
fn load_shadow(
    code: &mut Emitter,
    shadow: Shadow,
    operand: &MemoryOperand,
    distance: u32,
    sum: Gpr,
) {
    load_address(code, sum, operand);
    if distance != 0 {
        code.lea(sum, sum, distance as i32);
    }
    // What is no address has a place in the shadow, too: the access will fault, not this.
    code.load_immediate(gpr::RCX, UNUSED_BITS);
    code.shift(false, sum, gpr::RCX);
    code.load_immediate(gpr::RCX, UNUSED_BITS + u64::from(shadow.shift()));
    code.shift(true, sum, gpr::RCX);
    code.load_immediate(gpr::RCX, shadow.base());
    code.load_byte_indexed(gpr::RCX, gpr::RCX, sum);
}

/// `jrcxz` to where [`Emitter::land_short`] will be.
fn jump_if_rcx_is_zero(code: &mut Emitter) -> u64 {
    code.bytes(&[0xe3, 0]);
    code.here() - 1
}
