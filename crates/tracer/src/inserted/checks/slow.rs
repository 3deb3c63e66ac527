//! The slow parts of checks, at the end of the fragment.

use std::mem::offset_of;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::{Address, gpr};
use unspool_code_cache::gates::{ACQUIRES_BRIEFLY, CheckSlots};
use unspool_code_cache::slots::offset;
use unspool_instructions::operands::MemoryOperand;

use super::exact::look_closely;
use super::{elements, jump_not_equal, owner_word};
use crate::check_sites::CheckSite;
use crate::clean_calls::TracerRequest;
use crate::inserted::check::Check;
use crate::inserted::translation::{Translation, effective_address};
use crate::ownership::{EPOCH, Public};
use crate::slots::ASKED_TO_SHOW;
use crate::slots::offset as trace_offset;
use crate::trace_buffer::TIME_PER_BYTE;
use unspool_engine::translate::insertion::borrowed::RAX_SPILL;

/// Emits the slow parts of all checks, at the end of the fragment.
pub(crate) fn finish(translation: &mut Translation) {
    for slow in std::mem::take(&mut translation.slow_checks) {
        let Some(check) = &slow.check else {
            slow.detour.land(&mut translation.builder.code);
            answer(translation, slow.pc, slow.detour.back());
            continue;
        };
        if slow.elements.is_empty() {
            slow.detour.land(&mut translation.builder.code);
            look_closely(translation, check, slow.detour.back());
            claim_untouched(translation, check, slow.start);
        } else {
            elements::look_closely_at_all(translation, check, &slow.elements);
        }
        acquire_briefly(translation, check);
        let site = check.site(slow.ordinal, slow.words, slow.instruction, slow.flags_live);
        let leave = translation.builder.code.here();
        let number = translation.parts.check_sites.next();
        translation.clean_call(TracerRequest::Check(number), slow.pc);
        translation.parts.check_sites.add(CheckSite {
            start: slow.start,
            passed: slow.detour.back(),
            leave,
            buffer: translation.binding.buffer(),
            ..site
        });
        translation.builder.code.jump(slow.start);
    }
}

/// Emits the answer to other threads: publishes a bound of the thread's time, and moves its
/// epoch. What else they may ask is the engine's business.
fn answer(translation: &mut Translation, pc: u64, back: CacheAddress) {
    const { assert!(TIME_PER_BYTE == 8) };
    let (buffer, scratch, owner) = (
        translation.binding.buffer(),
        translation.binding.scratch(),
        translation.owner(),
    );
    let code = &mut translation.builder.code;
    code.on_slot(&[0xf6], 0, trace_offset::POLL); // test byte
    code.bytes(&[ASKED_TO_SHOW as u8]);
    let show = jump_not_equal(translation);
    let code = &mut translation.builder.code;
    code.store_slot_imm32(trace_offset::POLL, 0);
    code.load_slot(scratch, trace_offset::CLOCK);
    let bound = Address {
        base: Some(scratch),
        index: Some((buffer, TIME_PER_BYTE as u8)),
        displacement: 0,
    };
    code.lea_address(scratch, bound, false);
    code.load_slot(owner, trace_offset::PUBLIC);
    code.store(owner, offset_of!(Public, clock) as i32, scratch);
    // lock add qword [owner + state], EPOCH
    code.bytes(&[0xf0]);
    code.on_memory(&[0x83], 0, owner, offset_of!(Public, state) as i32);
    code.bytes(&[EPOCH as u8]);
    code.load_slot(owner, offset::OWNER_WORD);
    code.jump(back);
    code.land(show);
    translation.clean_call(TracerRequest::Poll, pc);
    translation.builder.code.jump(back);
}

/// Emits the short call into the engine. It comes back to the check, or to what follows here.
pub(super) fn acquire_briefly(translation: &mut Translation, check: &Check) {
    if !ACQUIRES_BRIEFLY {
        return;
    }
    let operand = MemoryOperand {
        displacement: check.operand.displacement.wrapping_add(check.first),
        ..check.operand
    };
    effective_address(translation, &operand);
    let gate = translation.gates().acquire;
    let number = translation.parts.check_sites.next();
    let scratch = translation.binding.scratch();
    let code = &mut translation.builder.code;
    code.store_slot(CheckSlots::ADDRESS, scratch);
    CheckSlots::emit_check(code, number);
    code.jump(gate);
}

/// Emits the claim of lines that nobody has touched: most lines change hands only this once.
/// It jumps to `again` if it got one, or falls through.
fn claim_untouched(translation: &mut Translation, check: &Check, again: CacheAddress) {
    let owner = translation.owner();
    for (relative, is_last) in [(check.first, false), (check.last, true)] {
        if is_last && check.first == check.last {
            return;
        }
        let word = owner_word(translation, check, relative);
        let code = &mut translation.builder.code;
        code.store_slot(offset::spill(RAX_SPILL), gpr::RAX);
        code.bytes(&[0x31, 0xc0]); // xor eax, eax
        code.compare_exchange_at(word.at(0), owner, 4);
        code.load_slot(gpr::RAX, offset::spill(RAX_SPILL));
        code.jump_if(4, again); // je
    }
}
