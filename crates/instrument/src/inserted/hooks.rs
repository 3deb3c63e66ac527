//! Hooks of the program's functions: where they are entered and where they return, and what
//! tells one entry from another.
//!
//! A hook is emitted before the first instruction of a superblock. What is usual it does in place
//! ([`activations`]). Otherwise it puts registers into the slots'
//! [`Exchange`](crate::slots::Exchange), calls the engine as a tool's function is called, and
//! takes over what the engine has changed there. Flags stay as they are.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::Exit;
use unspool_code_cache::emit::{Emitter, TARGET, gpr};
use unspool_code_cache::exit::{ExitKind, Reason};
use unspool_code_cache::slots::{TARGET_SPILL, offset};

use super::activations::{self, Found};
use super::parts::sets_stack_pointer;
use super::{Translation, calls};
use crate::functions::{self, Hooks, INTEGERS};
use crate::slots::offset as tool_offset;
use crate::{Action, AnalysisCall, AnalysisFunction};
use unspool_engine::translate::superblock::Item;

/// Emits the hook at a superblock's first instruction, if there is one.
pub(super) fn emit(translation: &mut Translation, item: &Item) {
    let Some(hook) = translation.parts.functions.hook_at(item.pc) else {
        return;
    };
    translation.restore();
    if let Some(functions) = hook.returns {
        let flags_live = item.flags_live;
        activations::leave(
            translation,
            item.pc,
            functions,
            flags_live,
            |translation, found| match found {
                Found::Unusual => ask_at_return(translation, item),
                Found::Nothing => {}
                Found::Call(hooks) if hooks.wrapper.is_some() => {
                    let compiled = translation.parts.functions.wrapper_in_place(hooks);
                    let compiled = compiled.expect("such a function is listed");
                    ask_at_return_with(translation, item, |translation| {
                        calls::emit_known(translation, item, functions::went_on, &compiled);
                    });
                }
                Found::Call(hooks) => {
                    let calls = hooks.exit_in_place().unwrap_or_default();
                    call_all(translation, item, calls, flags_live);
                }
            },
        );
    }
    if let Some(hooks) = hook.entry {
        emit_entry(translation, item, hooks);
    }
    translation.spill();
}

fn call_all(
    translation: &mut Translation,
    item: &Item,
    calls: Vec<AnalysisCall>,
    flags_live: bool,
) {
    let calls: Vec<_> = calls.into_iter().map(Action::Call).collect();
    calls::emit(translation, item, &calls, flags_live);
}

fn emit_entry(translation: &mut Translation, item: &Item, hooks: &'static Hooks) {
    let flags_live = item.flags_live;
    if let Some(compiled) = translation.parts.functions.wrapper_in_place(hooks) {
        let code = &mut translation.walk.builder.code;
        let unusual = activations::enter(code, hooks, &[], flags_live);
        ask_at_entry_with(translation, item, hooks, |translation| {
            calls::emit_known(translation, item, functions::began, &compiled);
        });
        let code = &mut translation.walk.builder.code;
        let over = code.jump_forward();
        activations::land_all(code, unusual);
        activations::restore(code, flags_live);
        ask_at_entry(translation, item, hooks);
        translation.walk.builder.code.land(over);
        return;
    }
    let Some((calls, kept)) = hooks.entry_in_place().zip(hooks.kept_registers()) else {
        return ask_at_entry(translation, item, hooks);
    };
    if !hooks.need_end() {
        return call_all(translation, item, calls, flags_live);
    }
    let code = &mut translation.walk.builder.code;
    let unusual = activations::enter(code, hooks, &kept, flags_live);
    call_all(translation, item, calls, flags_live);
    let code = &mut translation.walk.builder.code;
    let over = code.jump_forward();
    activations::land_all(code, unusual);
    activations::restore(code, flags_live);
    ask_at_entry(translation, item, hooks);
    translation.walk.builder.code.land(over);
}

/// Emits the call of the engine where a function is entered.
fn ask_at_entry(translation: &mut Translation, item: &Item, function: &'static Hooks) {
    ask_at_entry_with(translation, item, function, |translation| {
        call(translation, item, functions::entered);
    });
}

/// Emits a call of what finds registers in the exchange and may change them there.
fn ask_at_entry_with(
    translation: &mut Translation,
    item: &Item,
    function: &'static Hooks,
    call: impl FnOnce(&mut Translation),
) {
    let code = &mut translation.walk.builder.code;
    for (number, register) in INTEGERS.into_iter().enumerate() {
        code.store_slot(tool_offset::exchanged_integer(number), register);
    }
    code.store_slot(tool_offset::EXCHANGE_STACK, gpr::RSP);
    if function.has_floats {
        (0..8).for_each(|number| store_float(code, number));
    }
    store_subject(code, std::ptr::from_ref(function) as u64);
    call(translation);
    if function.wrapper.is_none() {
        if function.changes_arguments() {
            load_integers(&mut translation.walk.builder.code);
        }
        return;
    }
    let code = &mut translation.walk.builder.code;
    code.load_slot(gpr::RCX, tool_offset::EXCHANGE_VERDICT);
    let proceed = jump_if_rcx_zero(code);
    // The wrapper returns at once.
    if translation.walk.binding.is_some() {
        redirect(translation, item);
    } else {
        code.load_slot(gpr::RCX, tool_offset::exchanged_integer(3));
        code.load_slot(gpr::RAX, tool_offset::EXCHANGE_RESULT);
        if function.has_floats {
            load_float(code, 0);
        }
        code.store_slot(offset::spill(TARGET_SPILL), TARGET);
        let spill = translation.walk.builder.target_spill();
        translation.walk.builder.code.pop(TARGET);
        translation.walk.builder.end_spill(spill);
        translation.walk.builder.return_branch(0, true);
    }
    let code = &mut translation.walk.builder.code;
    code.land(proceed);
    load_integers(code);
    if function.has_floats {
        (0..8).for_each(|number| load_float(code, number));
    }
}

/// Emits that integer arguments are as the exchange has them.
fn load_integers(code: &mut Emitter) {
    for (number, register) in INTEGERS.into_iter().enumerate() {
        code.load_slot(register, tool_offset::exchanged_integer(number));
    }
}

/// Emits the call of the engine where functions return.
fn ask_at_return(translation: &mut Translation, item: &Item) {
    ask_at_return_with(translation, item, |translation| {
        call(translation, item, functions::returned);
    });
}

/// Likewise, of what finds registers in the exchange and may change them there.
fn ask_at_return_with(
    translation: &mut Translation,
    item: &Item,
    call: impl FnOnce(&mut Translation),
) {
    let code = &mut translation.walk.builder.code;
    code.store_slot(tool_offset::exchanged_integer(3), gpr::RCX);
    code.store_slot(tool_offset::EXCHANGE_STACK, gpr::RSP);
    store_float(code, 0);
    store_subject(code, item.pc);
    call(translation);
    let code = &mut translation.walk.builder.code;
    code.load_slot(gpr::RCX, tool_offset::EXCHANGE_VERDICT);
    let proceed = jump_if_rcx_zero(code);
    redirect(translation, item);
    let code = &mut translation.walk.builder.code;
    code.land(proceed);
    code.load_slot(gpr::RCX, tool_offset::exchanged_integer(3));
    code.load_slot(gpr::RAX, tool_offset::EXCHANGE_RESULT);
    load_float(code, 0);
}

/// Leaves the cache with all program state in place: the engine knows where to go on.
fn redirect(translation: &mut Translation, item: &Item) {
    let exits = &mut translation.walk.builder.new_fragment.exits;
    let reason = Reason::exit(translation.walk.cache.exit_index(exits.len()));
    exits.push(Exit::new(ExitKind::Redirected, item.pc));
    let gate = translation.walk.cache.gates.exit;
    translation.walk.builder.code.leave(reason, gate);
}

/// Emits what keeps where a call puts its return address: what enters a function by a jump
/// is no call of it.
pub(super) fn note_call(translation: &mut Translation) {
    if translation.parts.functions.follows_returns() {
        translation
            .walk
            .builder
            .code
            .store_slot(tool_offset::CALLED, gpr::RSP);
    }
}

/// Emits the notice that the stack pointer was set anew, as `longjmp` and the unwinding of
/// exceptions do, if an instruction does that.
pub(super) fn follow_stack(translation: &mut Translation, item: &Item) {
    if !translation.parts.functions.follows_returns() || !sets_stack_pointer(item) {
        return;
    }
    translation.restore();
    let code = &mut translation.walk.builder.code;
    let none_lost = activations::skip_if_none_lost(code);
    code.store_slot(tool_offset::EXCHANGE_STACK, gpr::RSP);
    call(translation, item, functions::stack_moved);
    let code = &mut translation.walk.builder.code;
    let over = code.jump_forward();
    code.land(none_lost);
    activations::restore(code, true);
    code.land(over);
    translation.spill();
}

fn call(translation: &mut Translation, item: &Item, function: AnalysisFunction) {
    let action = Action::Call(AnalysisCall {
        function,
        arguments: Vec::new(),
    });
    calls::emit(translation, item, &[action], true);
}

/// Stores what the hook is about, and rax.
fn store_subject(code: &mut Emitter, subject: u64) {
    code.store_slot(tool_offset::EXCHANGE_RESULT, gpr::RAX);
    code.load_immediate(gpr::RAX, subject);
    code.store_slot(tool_offset::EXCHANGE_SUBJECT, gpr::RAX);
    code.load_slot(gpr::RAX, tool_offset::EXCHANGE_RESULT);
}

/// `movlps fs:[slot], xmm`
fn store_float(code: &mut Emitter, number: usize) {
    code.on_slot(
        &[0x0f, 0x13],
        number as u8,
        tool_offset::exchanged_float(number),
    );
}

/// `movlps xmm, fs:[slot]`: the upper half stays.
fn load_float(code: &mut Emitter, number: usize) {
    code.on_slot(
        &[0x0f, 0x12],
        number as u8,
        tool_offset::exchanged_float(number),
    );
}

/// `jrcxz` over a jump to where [`Emitter::land`] will be.
fn jump_if_rcx_zero(code: &mut Emitter) -> CacheAddress {
    code.bytes(&[0xe3, 2, 0xeb, 5]);
    code.jump_forward()
}
