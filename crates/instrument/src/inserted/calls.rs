//! Calls of a tool's functions.
//!
//! A short function stands where it is called, with registers that are borrowed for it ([`inlined`]).
//! Where it is known what a longer one changes (see [`Compiled`]), the call is made in
//! place and keeps that ([`quick`]). Otherwise it is made by way of a gate that keeps all.

mod body_code;
pub(super) mod inlined;
mod quick;
mod values;

use std::sync::Arc;

use self::quick::Restoring;
pub(super) use self::values::reads as registers;
use self::values::{Registers, numbers};
use super::Parts;
use super::at_call::AtCall;
use super::{Translation, observed};
use crate::action::VectorElements;
use crate::call_forms::{CallForm, note};
use crate::{Action, Argument, Compiled};
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::Exit;
use unspool_code_cache::emit::{Emitter, TARGET, gpr};
use unspool_code_cache::exit::{ExitKind, Reason};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::{TARGET_SPILL, offset};
use unspool_engine::translate::superblock::Item;
use unspool_instructions::decode::Kind;

/// A call that is to be made.
#[derive(Clone)]
pub(crate) struct EmittedCall {
    function: u64,
    tool: u64,
    arguments: Vec<Argument>,
    /// Registers that need not be kept.
    exchanged: u16,
    /// What is called only if this call's result says so.
    followed: Option<Box<EmittedCall>>,
}

impl EmittedCall {
    fn of(parts: &Parts, action: &Action) -> Option<EmittedCall> {
        let call = |call: &crate::AnalysisCall| EmittedCall {
            function: call.function as usize as u64,
            tool: parts.tool.address() as u64,
            arguments: call.arguments.clone(),
            exchanged: 0,
            followed: None,
        };
        match action {
            Action::Call(it) => Some(call(it)),
            Action::CallIf { test, then } => Some(EmittedCall {
                followed: Some(Box::new(call(then))),
                ..call(test)
            }),
            _ => None,
        }
    }

    /// Whether the function may have the program go on elsewhere.
    fn has_context(&self) -> bool {
        let is_context = |argument: &Argument| matches!(argument, Argument::Context(_));
        self.arguments.iter().any(is_context)
    }
}

/// A call that is made only if the one before it says so, away from the straight path.
pub(crate) struct Followed {
    /// The field of the jump to it.
    field: CacheAddress,
    /// Where it goes on.
    back: CacheAddress,
    /// What the first call has not given back yet.
    restoring: Option<Restoring>,
    call: EmittedCall,
    /// The number of the instruction.
    number: usize,
    flags_live: bool,
    /// What the path has appended there.
    at_call: AtCall,
}

/// How many bytes an action takes at most.
pub(super) fn size(parts: &Parts, action: &Action) -> usize {
    const ADDITION: usize = 60;
    const ARGUMENT: usize = 60;
    const CALL: usize = 200;
    const FIELD: usize = 110;
    /// Of a countdown, or of one word of shadow memory.
    const TEST: usize = 100;
    /// Saving and restoring one.
    const REGISTER: usize = 22;
    /// Its address, too, where that has to be kept.
    const MEMORY_VALUE: usize = 400;
    /// Flags, which take most.
    const OBSERVED: usize = 150;
    /// A vector register of which the processor has not all.
    const WIDE: usize = 250;
    /// Giving back what is borrowed, and borrowing it again.
    const BORROWED: usize = 250;
    // Most actions are these, and nothing is found out for them.
    if let Action::Count { .. } = action {
        return ADDITION;
    }
    let call = |call: &crate::AnalysisCall| {
        let kept = match parts.compiled.get(call.function as usize as u64) {
            Some(compiled) => {
                let registers = compiled.changes.count_ones() + compiled.vectors.count_ones() + 6;
                let body = compiled.body.as_ref().map_or(0, |body| body.size());
                // Twice restored, where another call follows.
                registers as usize * 2 * REGISTER + body
            }
            None => 0,
        };
        CALL + BORROWED + kept + call.arguments.len() * ARGUMENT + AtCall::size()
    };
    let values = action.memory_values().count_ones() as usize * MEMORY_VALUE;
    let others = action.words().filter(|it| observed::slot(it).is_some());
    let is_wide = |word: &&Argument| matches!(word, Argument::WideVector { .. });
    let wide = action.words().filter(is_wide).count() * WIDE;
    let values = values + others.count() * OBSERVED + wide;
    let called: usize = action.functions().map(call).sum();
    let own = match action {
        Action::Count { .. } => ADDITION,
        Action::Call(_) | Action::CallIf { .. } | Action::Replace(_) => 0,
        Action::Sampled { .. } | Action::Reaches { .. } => TEST,
        Action::Shadow { check, otherwise } => {
            let each = check.tests.len() + check.stores.len();
            let borrowed = if otherwise.is_some() { 0 } else { BORROWED };
            TEST * (3 + each * check.words() as usize) + borrowed
        }
        Action::Append { fields, .. } => CALL + fields.len() * FIELD,
        Action::AppendIf { entry, words, .. } => {
            let called = CALL + AtCall::size() + (2 + words.len()) * ARGUMENT;
            let stored = CALL + 2 * BORROWED + entry.fields.len() * FIELD;
            called.max(stored)
        }
        Action::AppendEach(each) => match VectorElements::of(each) {
            None => 2 * (CALL + AtCall::size()),
            Some(_) => {
                let fields: usize = each.operands.iter().map(|(_, fields)| fields.len()).sum();
                2 * WIDE + 3 * BORROWED + 2 * TEST + fields * FIELD
            }
        },
    };
    called + own + values
}

/// Emits the calls among some actions. Flags that are live stay what they are.
pub(super) fn emit(
    translation: &mut Translation,
    item: &Item,
    actions: &[Action],
    flags_live: bool,
) {
    for action in actions {
        if let Some(call) = EmittedCall::of(&translation.parts, action) {
            emit_call(translation, item, &call, flags_live);
        }
    }
}

/// Emits the call of a function without arguments of which it is known what it changes, where flags are
/// dead, or borrowed. Registers of the mask `exchanged` are not kept: the caller loads them behind it.
pub(super) fn emit_known(
    translation: &mut Translation,
    item: &Item,
    (function, compiled): (crate::AnalysisFunction, &Arc<Compiled>),
    exchanged: u16,
) {
    let call = EmittedCall {
        function: function as usize as u64,
        tool: 0,
        arguments: Vec::new(),
        exchanged,
        followed: None,
    };
    quick::emit(translation, item, &call, compiled, false);
}

impl Followed {
    /// Puts the call off, or makes it here: where the program may go on elsewhere, what is due is
    /// found out by the instruction at which this is.
    fn put_off(self, translation: &mut Translation, item: &Item) {
        if !self.call.has_context() {
            translation.own.followed.push(self);
            return;
        }
        let over = translation.walk.builder.code.jump_forward();
        self.emit(translation, item);
        translation.walk.builder.code.land(over);
    }

    fn emit(&self, translation: &mut Translation, item: &Item) {
        let code = &mut translation.walk.builder.code;
        code.land(self.field);
        if let Some(restoring) = &self.restoring {
            restoring.emit(code);
        } else {
            code.load_slot(gpr::RCX, CallSlots::kept(gpr::RCX));
        }
        let outer = translation.own.deferred.replace(self.at_call);
        emit_call(translation, item, &self.call, self.flags_live);
        translation.own.deferred = outer;
        translation.walk.builder.code.jump(self.back);
    }
}

/// Emits what was put off: calls that follow others, and ways out of the cache.
pub(super) fn finish(translation: &mut Translation, items: &[Item]) {
    while let Some(followed) = translation.followed.pop() {
        followed.emit(translation, &items[followed.number]);
    }
    for (field, back) in std::mem::take(&mut translation.interrupted) {
        let gate = translation.walk.cache.gates.exit;
        let code = &mut translation.walk.builder.code;
        code.land(field);
        code.store_slot_signed(offset::TARGET, back.get() as i32);
        code.leave(Reason::CALL_INTERRUPTED, gate);
    }
}

fn emit_call(translation: &mut Translation, item: &Item, call: &EmittedCall, flags_live: bool) {
    for (number, argument) in call.arguments.iter().enumerate() {
        if let Argument::Target = argument {
            store_target(translation, item, number);
        }
    }
    if call.has_context() {
        return emit_gated(translation, item, call, true);
    }
    match translation.parts.compiled.get(call.function) {
        Some(compiled) => quick::emit(translation, item, call, &compiled, flags_live),
        None => emit_gated(translation, item, call, false),
    }
}

/// Emits a call by way of a gate, which keeps everything; with the whole state, by way of the gate
/// out of the cache.
fn emit_gated(translation: &mut Translation, item: &Item, call: &EmittedCall, with_context: bool) {
    note(call.function, CallForm::Gated);
    let gate = translation.walk.cache.gates.call;
    let at_call = translation.own.at_call();
    let code = &mut translation.walk.builder.code;
    for register in numbers(values::SCRATCHES) {
        code.store_slot(CallSlots::kept(register), register);
    }
    let mut registers = Registers {
        saved: values::SCRATCHES,
        taken: 0,
    };
    for numbered in call.arguments.iter().enumerate() {
        values::store(code, item, numbered, &mut registers);
    }
    code.load_immediate(gpr::RAX, call.function);
    code.store_slot(CallSlots::FUNCTION, gpr::RAX);
    code.load_immediate(gpr::RAX, call.tool);
    code.store_slot(CallSlots::TOOL, gpr::RAX);
    registers.taken |= 1 << gpr::RAX;
    registers.bring_back(code, values::SCRATCHES);
    at_call.announce(code);
    if with_context {
        // Whoever makes the call revokes that.
        let place = translation.walk.builder.new_fragment.exits.len();
        let reason = Reason::exit(translation.walk.cache.exit_index(place));
        code.leave(reason, translation.walk.cache.gates.exit);
        let completed = translation.own.completed;
        let mut exit = Exit::new(ExitKind::Call { completed }, translation.own.at);
        exit.stub = code.here();
        translation.walk.builder.new_fragment.exits.push(exit);
        // It may have been changed.
        translation.walk.builder.code.keep_target();
    } else {
        jump_to_call_gate(code, gate);
        at_call.revoke(code);
    }
    let code = &mut translation.walk.builder.code;
    quick::give_back_changeable(code, &call.arguments, &mut 0);
    let Some(followed) = &call.followed else {
        return;
    };
    // Without a look at the flags: rcx is not zero.
    code.store_slot(CallSlots::kept(gpr::RCX), gpr::RCX);
    code.load_slot_byte(gpr::RCX, CallSlots::RESULT);
    code.bytes(&[0xe3, 5]); // jrcxz over the jump
    let field = code.jump_forward();
    code.load_slot(gpr::RCX, CallSlots::kept(gpr::RCX));
    let back = code.here();
    let followed = Followed {
        field,
        back,
        restoring: None,
        call: (**followed).clone(),
        number: translation.walk.number,
        flags_live: true,
        at_call,
    };
    followed.put_off(translation, item);
}

/// Emits the jump to the gate of calls, which comes back behind it.
pub(super) fn jump_to_call_gate(code: &mut Emitter, gate: CacheAddress) {
    code.store_slot_signed(offset::TARGET, 0);
    // Where to go on is known behind the jump only.
    let field = code.here().minus(4);
    code.jump(gate);
    let back = code.here();
    code.patch32(field, back.get() as i32);
}

/// Puts where a branch goes into the slot of an argument.
fn store_target(translation: &mut Translation, item: &Item, number: usize) {
    let builder = &mut translation.walk.builder;
    let is_indirect = matches!(
        item.layout.kind,
        Kind::Return { .. } | Kind::JumpIndirect | Kind::CallIndirect
    );
    if !is_indirect {
        let (slot, target) = (values::slot(number), item.layout.target);
        return builder.code.store_slot_constant(slot, target);
    }
    // Where registers are bound, the slot is free.
    builder.code.keep_target();
    if let Kind::Return { .. } = item.layout.kind {
        builder.code.load(TARGET, gpr::RSP, 0);
    } else if builder
        .indirect_target(&item.layout, &item.bytes, item.pc)
        .is_err()
    {
        // Such an instruction ends the program with a message.
        return;
    }
    let spill = builder.target_spill();
    builder.code.store_slot(values::slot(number), TARGET);
    builder.code.load_slot(TARGET, offset::spill(TARGET_SPILL));
    builder.end_spill(spill);
}
