//! Calls that are made when a countdown ends, or when a counter has come somewhere.
//!
//! What decides is inlined. The call itself is an ordinary one, away from the straight path
//! ([`rare_call`]).

use unspool_code_cache::emit::gpr;

use super::{Translation, rare_call};
use crate::slots::offset as tool_offset;
use crate::{Action, AnalysisCall, Counter, SamplerId, ThreadWord};
use unspool_engine::translate::insertion::detour::Jumps;
use unspool_engine::translate::superblock::Item;

/// Conditions, as opcodes have them.
const EQUAL: u8 = 4;
const ABOVE_OR_EQUAL: u8 = 3;

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
    let call = Action::Call(call.clone());
    rare_call::put_off(translation, (item, flags_live), jumps, call, Some(sampler));
}

/// Emits a call that is made if the thread has counted at least so much as its word says.
pub(super) fn reaches(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    (counter, word): (Counter, ThreadWord),
    call: &AnalysisCall,
) {
    let walk = &mut *translation.walk;
    let [register] = walk.take_registers(0);
    walk.borrowed.take_flags(&mut walk.builder, flags_live);
    let code = &mut walk.builder.code;
    code.load_slot(register, counter.place().slot());
    code.compare_with_slot(register, tool_offset::WORDS + 8 * word.index() as i32, 8);
    let jumps = Jumps::from_slice(&[code.jump_forward_if(ABOVE_OR_EQUAL)]);
    let call = Action::Call(call.clone());
    rare_call::put_off(translation, (item, flags_live), jumps, call, None);
}
