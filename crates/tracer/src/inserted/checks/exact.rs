//! The exact test of the lines of an access, where the inlined comparison has failed.

use unspool_code_cache::address::CacheAddress;

use super::{jump_not_equal, known_word, layout, owner_word};
use crate::inserted::check::Check;
use crate::inserted::translation::Translation;
use crate::slots::offset as trace_offset;

/// Emits the exact test of the first and the last byte's line; it jumps to `passed`, or
/// falls through where the engine is needed.
pub(super) fn look_closely(translation: &mut Translation, check: &Check, passed: CacheAddress) {
    let (scratch, owner) = (translation.binding.scratch(), translation.owner());
    let is_known = known_word(translation, check).is_some();
    // The inlined check left the first line's number in the scratch register, unless it knew the
    // word's address.
    let mut has_number = !is_known;
    if !check.write && !is_known && check.first != check.last {
        pass_if_shared(translation, passed);
        has_number = false;
    }
    let mut failures = Vec::new();
    for (relative, is_last) in [(check.first, false), (check.last, true)] {
        if is_last && check.first == check.last {
            translation.builder.code.jump(passed);
            break;
        }
        let word = match std::mem::take(&mut has_number) {
            false => owner_word(translation, check, relative),
            true => layout(translation).word_of(scratch, None),
        };
        translation.builder.code.load_at(scratch, word.at(0), 4);
        translation.builder.code.compare_halves(scratch, owner);
        let mut next = None;
        if check.write {
            if is_last {
                translation.builder.code.jump_if(4, passed);
            } else {
                failures.push(jump_not_equal(translation));
            }
        } else {
            if is_last {
                translation.builder.code.jump_if(4, passed);
            } else {
                translation.builder.code.bytes(&[0x74, 0]); // je over the next test
                next = Some(translation.builder.code.here());
            }
            let seen = trace_offset::SHARED_SEEN;
            translation.builder.code.compare_with_slot(scratch, seen, 4);
            if is_last {
                translation.builder.code.jump_if(3, passed); // jae
            } else {
                translation.builder.code.bytes(&[0x0f, 0x82]); // jb
                failures.push(translation.builder.code.here());
                translation.builder.code.imm32(0);
            }
        }
        if let Some(next) = next {
            let length = translation.builder.code.here().bytes_since(next) as u8;
            translation.builder.patch_byte(next.before(), length);
        }
    }
    for field in failures {
        translation.builder.code.land(field);
    }
}

/// Emits the test whether a line, whose number is in the scratch register, and the next one are
/// shared by those who read them: tables are, which threads read more often than anything else that
/// is not their own. It jumps to `passed`, or falls through.
fn pass_if_shared(translation: &mut Translation, passed: CacheAddress) {
    const BELOW: u8 = 2;
    const NOT_BELOW: u8 = 3;
    let scratch = translation.binding.scratch();
    let both = layout(translation).word_of(scratch, None).at(0);
    let code = &mut translation.builder.code;
    code.load_at(scratch, both, 8);
    code.compare_with_slot(scratch, trace_offset::SHARED_SEEN, 4);
    let failed = code.jump_forward_if(BELOW);
    code.shift_by(true, scratch, 32);
    code.compare_with_slot(scratch, trace_offset::SHARED_SEEN, 4);
    code.jump_if(NOT_BELOW, passed);
    code.land(failed);
}
