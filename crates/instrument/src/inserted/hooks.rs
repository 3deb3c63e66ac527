//! Hooks of the program's functions: where they are entered and where they return, and what
//! tells one entry from another.
//!
//! A hook is emitted before the first instruction of a superblock. What is usual it does in place
//! ([`activations`]). Otherwise it puts registers into the slots'
//! [`Exchange`](crate::slots::Exchange), calls the engine as a tool's function is called, and
//! takes over what the engine has changed there. Flags stay as they are.

use std::sync::Arc;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::Exit;
use unspool_code_cache::emit::{Emitter, Gpr, TARGET, gpr};
use unspool_code_cache::exit::{ExitKind, Reason};

use super::activations::{self, Found};
use super::parts::sets_stack_pointer;
use super::{Translation, calls};
use crate::call_forms::{CallForm, note};
use crate::functions::{self, Hooks, INTEGERS};
use crate::slots::offset as tool_offset;
use crate::{Action, AnalysisCall, AnalysisFunction, Compiled};
use unspool_engine::translate::insertion::borrowed::Borrowed;
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
                    resume_wrapper(translation, item, &compiled);
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

/// Emits calls, which find what they borrow shared among them. Behind them all is given back.
fn call_all(
    translation: &mut Translation,
    item: &Item,
    calls: Vec<AnalysisCall>,
    flags_live: bool,
) {
    for call in calls {
        let action = Action::Call(call);
        if calls::inlined::is_possible(translation, item, &action) {
            calls::inlined::emit(translation, item, &action, flags_live);
        } else {
            translation.walk.give_back_all();
            calls::emit(translation, item, &[action], flags_live);
        }
    }
    translation.walk.give_back_all();
}

fn emit_entry(translation: &mut Translation, item: &Item, hooks: &'static Hooks) {
    let flags_live = item.flags_live;
    if let Some(compiled) = translation.parts.functions.wrapper_in_place(hooks) {
        note_all(hooks, CallForm::Called);
        let unusual = activations::enter(translation.walk, hooks, &[], 0, flags_live);
        let borrowed = translation.walk.borrowed;
        begin_wrapper(translation, item, hooks, &compiled);
        return or_ask_at_entry(translation, item, hooks, unusual, &borrowed);
    }
    let Some((calls, kept)) = hooks.entry_in_place().zip(hooks.kept_registers()) else {
        note_all(hooks, CallForm::Gated);
        return ask_at_entry(translation, item, hooks);
    };
    if !hooks.need_end() {
        return call_all(translation, item, calls, flags_live);
    }
    let arguments = calls.iter().flat_map(|call| &call.arguments);
    let read = arguments.fold(0, |mask, argument| mask | calls::registers(argument));
    let unusual = activations::enter(translation.walk, hooks, &kept, read, flags_live);
    let borrowed = translation.walk.borrowed;
    call_all(translation, item, calls, flags_live);
    or_ask_at_entry(translation, item, hooks, unusual, &borrowed);
}

/// Notes how the functions are called that the engine calls where a function is entered.
fn note_all(hooks: &Hooks, form: CallForm) {
    let calls = hooks.entry.iter().map(|call| call.inserted as usize);
    let wrapper = hooks.wrapper.map(|wrapper| wrapper as usize);
    calls
        .chain(wrapper)
        .for_each(|function| note(function as u64, form));
}

/// Emits the call of the engine where jumps lead, with what is borrowed where they are.
fn or_ask_at_entry(
    translation: &mut Translation,
    item: &Item,
    hooks: &'static Hooks,
    jumps: activations::Jumps,
    borrowed: &Borrowed,
) {
    let over = translation.walk.builder.code.jump_forward();
    activations::land_all(translation.walk, jumps, borrowed);
    translation.walk.give_back_all();
    ask_at_entry(translation, item, hooks);
    translation.walk.builder.code.land(over);
}

/// Emits the call of the engine where a function is entered.
fn ask_at_entry(translation: &mut Translation, item: &Item, function: &'static Hooks) {
    let code = &mut translation.walk.builder.code;
    store_arguments(code, function);
    code.store_slot(tool_offset::EXCHANGE_STACK, gpr::RSP);
    store_subject(code, std::ptr::from_ref(function) as u64);
    call(translation, item, functions::entered);
    if function.wrapper.is_some() {
        return follow_wrapper(translation, item, function);
    }
    if function.changes_arguments() {
        INTEGERS.into_iter().for_each(|register| {
            load_integer(&mut translation.walk.builder.code, register);
        });
    }
}

/// Emits the beginning of a wrapper, whose activation has been noted. What is borrowed is given back.
fn begin_wrapper(
    translation: &mut Translation,
    item: &Item,
    function: &'static Hooks,
    compiled: &Arc<Compiled>,
) {
    translation.walk.give_back(u16::MAX);
    store_arguments(&mut translation.walk.builder.code, function);
    let exchanged = INTEGERS
        .iter()
        .fold(0, |mask, register| mask | 1 << register);
    let began = (functions::began as AnalysisFunction, compiled);
    calls::emit_known(translation, item, began, exchanged);
    translation.walk.give_back_all();
    follow_wrapper(translation, item, function);
}

/// Emits that the program goes on as a wrapper has it that has begun.
fn follow_wrapper(translation: &mut Translation, item: &Item, function: &'static Hooks) {
    let code = &mut translation.walk.builder.code;
    let others = INTEGERS.into_iter().filter(|&it| it != gpr::RCX);
    others.for_each(|register| load_integer(code, register));
    code.load_slot(gpr::RCX, tool_offset::EXCHANGE_VERDICT);
    let proceed = jump_if_rcx_zero(code);
    // The wrapper returns at once.
    if translation.walk.binding.is_some() {
        redirect(translation, item);
    } else {
        load_integer(code, gpr::RCX);
        code.load_slot(gpr::RAX, tool_offset::EXCHANGE_RESULT);
        if function.has_floats {
            load_float(code, 0);
        }
        let spill = translation.walk.builder.target_spill();
        translation.walk.builder.code.pop(TARGET);
        translation.walk.builder.end_spill(spill);
        translation.walk.builder.return_branch(0, true);
    }
    let code = &mut translation.walk.builder.code;
    code.land(proceed);
    load_integer(code, gpr::RCX);
    if function.has_floats {
        (0..8).for_each(|number| load_float(code, number));
    }
}

/// Emits that the exchange has a function's arguments, as far as they are in registers.
fn store_arguments(code: &mut Emitter, function: &Hooks) {
    for (number, register) in INTEGERS.into_iter().enumerate() {
        code.store_slot(tool_offset::exchanged_integer(number), register);
    }
    if function.has_floats {
        (0..8).for_each(|number| store_float(code, number));
    }
}

/// Emits that an integer argument is as the exchange has it.
fn load_integer(code: &mut Emitter, register: Gpr) {
    let number = INTEGERS.iter().position(|&it| it == register);
    let number = number.expect("it is the register of an argument");
    code.load_slot(register, tool_offset::exchanged_integer(number));
}

/// Emits the call of the engine where functions return.
fn ask_at_return(translation: &mut Translation, item: &Item) {
    let code = &mut translation.walk.builder.code;
    store_results(code);
    code.store_slot(tool_offset::EXCHANGE_STACK, gpr::RSP);
    store_subject(code, item.pc);
    call(translation, item, functions::returned);
    follow_return(translation, item);
}

/// Emits that a wrapper goes on whose activation has been taken away. What is borrowed is given back.
fn resume_wrapper(translation: &mut Translation, item: &Item, compiled: &Arc<Compiled>) {
    translation.walk.give_back(u16::MAX);
    store_results(&mut translation.walk.builder.code);
    let went_on = (functions::went_on as AnalysisFunction, compiled);
    calls::emit_known(translation, item, went_on, 1 << gpr::RCX);
    translation.walk.give_back_all();
    follow_return(translation, item);
}

/// Emits that the exchange has what a function returns, and what is changed beside that.
fn store_results(code: &mut Emitter) {
    code.store_slot(tool_offset::exchanged_integer(3), gpr::RCX);
    code.store_slot(tool_offset::EXCHANGE_RESULT, gpr::RAX);
    store_float(code, 0);
}

/// Emits that the program goes on as the exchange has it.
fn follow_return(translation: &mut Translation, item: &Item) {
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
    let (none_lost, borrowed) = activations::skip_if_none_lost(translation.walk);
    let code = &mut translation.walk.builder.code;
    code.store_slot(tool_offset::EXCHANGE_STACK, gpr::RSP);
    call(translation, item, functions::stack_moved);
    let over = translation.walk.builder.code.jump_forward();
    activations::land_all(translation.walk, vec![none_lost], &borrowed);
    translation.walk.give_back_all();
    translation.walk.builder.code.land(over);
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
