//! A look, where a path ends, whether a buffer has hardly room left.
//!
//! A buffer ends in a page without access, so that nobody need look. But the signal by which the end
//! is met takes some microseconds, as long as it takes to make many thousand entries. So paths that
//! lead back, of which each loop has one, compare the position with a place before the end, if the
//! flags are dead there, and hand the buffer over by a call. Whatever comes by no such path still
//! meets the end.

use std::mem::offset_of;

use unspool_engine::translate::insertion::append::BufferPosition;
use unspool_engine::translate::insertion::detour::Jumps;

use super::at_call::{Pending, part};
use super::{Translation, appends, rare_call};
use crate::buffers::hand_over_full;
use crate::slots::Part;
use crate::{AnalysisCall, Argument};

/// A condition, as opcodes have it.
const ABOVE: u8 = 7;
/// How many looks a superblock has room for.
const MOST: usize = 8;

/// Emits a look at the buffers to which a path has appended so much, behind the move of their
/// positions, if the path leads back: to `target`, where the superblock begins or before.
pub(super) fn look(translation: &mut Translation, pending: Pending, target: Option<u64>) {
    let Some(binding) = translation.walk.binding else {
        return;
    };
    let start = translation.walk.builder.new_fragment.pc;
    let Some(target) = target.filter(|target| *target <= start) else {
        return;
    };
    if pending == Pending::default() {
        return;
    }
    let flags_live = match target == start {
        true => translation.own.flags_live_at_start,
        false => translation.walk.flags_live_at(target),
    };
    if flags_live {
        return;
    }
    for (number, _) in pending.iter().enumerate().filter(|(_, bytes)| **bytes != 0) {
        if translation.own.looks_at_ends == MOST {
            return;
        }
        translation.own.looks_at_ends += 1;
        let code = &mut translation.walk.builder.code;
        let register = match appends::position(number) {
            BufferPosition::Bound => binding.buffer(),
            BufferPosition::Slot(slot) => {
                code.load_slot(binding.scratch(), slot);
                binding.scratch()
            }
        };
        let full = part(number) + offset_of!(Part, full) as i32;
        code.compare_with_slot(register, full, 8);
        let jumps = Jumps::from_slice(&[code.jump_forward_if(ABOVE)]);
        let call = AnalysisCall {
            function: hand_over_full,
            arguments: vec![Argument::Constant(number as u64)],
        };
        rare_call::put_off_at_end(translation, jumps, call);
    }
}
