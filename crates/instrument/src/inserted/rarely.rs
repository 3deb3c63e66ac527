//! Calls that are made when a countdown ends.
//!
//! What decides is inlined. The call itself is an ordinary one, away from the straight path
//! ([`rare_call`]).

use unspool_code_cache::emit::gpr;

use super::{Translation, rare_call};
use crate::slots::offset as tool_offset;
use crate::{Action, AnalysisCall, SamplerId};
use unspool_engine::translate::insertion::detour::Jumps;
use unspool_engine::translate::superblock::Item;

/// The condition, as opcodes have it.
const EQUAL: u8 = 4;

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
