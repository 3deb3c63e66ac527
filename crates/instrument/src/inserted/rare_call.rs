//! Calls to which jumps lead that are seldom taken: ordinary ones, away from the straight path.

use unspool_engine::translate::insertion::detour::{Detour, Jumps};
use unspool_engine::translate::superblock::Item;

use super::Translation;
use super::at_call::AtCall;
use crate::slots::offset as tool_offset;
use crate::{Action, AnalysisCall, SamplerId};

/// A call that is still to be emitted, where jumps lead.
pub(super) struct RareCall {
    detour: Detour,
    call: Action,
    /// Which registers it may change.
    changes: u16,
    /// The sampler that it is for.
    sampler: Option<SamplerId>,
    /// The number of the instruction.
    number: usize,
    flags_live: bool,
    /// What the path has appended there.
    at_call: AtCall,
}

/// The call is made where these jumps lead.
pub(super) fn put_off(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    jumps: Jumps,
    call: Action,
    sampler: Option<SamplerId>,
) {
    let walk = &mut *translation.walk;
    let has_context = call.has_context();
    let rare = RareCall {
        detour: Detour::new(&walk.builder, walk.borrowed, jumps),
        changes: call.changes(),
        call,
        sampler,
        number: walk.number,
        flags_live,
        at_call: translation.own.at_call(),
    };
    if !has_context {
        translation.own.rare_calls.push(rare);
        return;
    }
    // The program may go on elsewhere, and the way to find out what is due leads through the
    // instruction at which this is.
    let over = translation.walk.builder.code.jump_forward();
    let borrowed = std::mem::take(&mut translation.walk.borrowed);
    rare.emit(translation, item);
    translation.walk.borrowed = borrowed;
    translation.walk.builder.code.land(over);
}

/// The call is made where these jumps lead, which are at the end of a path: what it has appended has
/// been settled, nothing is borrowed, and flags are dead.
pub(super) fn put_off_at_end(translation: &mut Translation, jumps: Jumps, call: AnalysisCall) {
    let walk = &*translation.walk;
    let rare = RareCall {
        detour: Detour::new(&walk.builder, walk.borrowed, jumps),
        changes: 0,
        call: Action::Call(call),
        sampler: None,
        number: walk.number,
        flags_live: false,
        at_call: AtCall::default(),
    };
    translation.own.rare_calls.push(rare);
}

/// Emits the calls that were put off.
pub(super) fn finish(translation: &mut Translation, items: &[Item]) {
    for rare in std::mem::take(&mut translation.own.rare_calls) {
        rare.emit(translation, &items[rare.number]);
    }
}

impl RareCall {
    fn emit(&self, translation: &mut Translation, item: &Item) {
        let code = &mut translation.walk.builder.code;
        self.detour.begin(code);
        if let Some(sampler) = self.sampler {
            code.store_slot_imm32(tool_offset::SAMPLER, sampler.index() as u32);
        }
        let call = std::slice::from_ref(&self.call);
        let outer = translation.own.deferred.replace(self.at_call);
        translation.call_now(item, call, self.flags_live);
        translation.own.deferred = outer;
        let code = &mut translation.walk.builder.code;
        self.detour.end(code, self.changes);
    }
}
