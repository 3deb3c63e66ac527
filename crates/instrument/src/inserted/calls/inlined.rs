//! Short functions where they are called, with registers that are borrowed for them.
//!
//! A function's own registers are renamed: into what is borrowed already, and into the program's own
//! where an argument is the value of a register that the function only reads. So neighbouring calls
//! share their spills, and keep what all of them need, as the address of the thread's state.

use std::sync::Arc;

use smallvec::SmallVec;
use unspool_code_cache::emit::{Gpr, gpr};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::offset;
use unspool_engine::translate::insertion::borrowed::{Borrowed, Content};
use unspool_engine::translate::insertion::detour::Jumps;
use unspool_engine::translate::superblock::Item;
use unspool_engine::translate::walk::Walk;
use unspool_instructions::decode::Kind;

use super::values::{self, Numbered, Registers, numbers};
use super::{body_code, quick};
use crate::call_forms::{CallForm, note};
use crate::inserted::{Translation, rare_call};
use crate::{Action, AnalysisCall, Argument, Body, Compiled, Renaming};

/// The condition, as opcodes have it.
const NOT_EQUAL: u8 = 5;

/// Whether anybody looks at what a function returns.
#[derive(Clone, Copy)]
enum Outcome {
    Needed,
    Ignored,
}

impl Outcome {
    /// The code of a function that is to be there.
    fn body(self, compiled: &Compiled) -> Option<&Body> {
        match self {
            Outcome::Needed => compiled.body.as_ref(),
            Outcome::Ignored => compiled.effects.as_ref(),
        }
    }
}

/// What is needed for a function to stand where it is called.
struct Inlining<'a> {
    compiled: Arc<Compiled>,
    result: Outcome,
    /// Arguments that are in the thread's slots.
    in_slots: SmallVec<[Numbered<'a>; 4]>,
    /// Arguments that are put into registers: which register of the function's.
    in_registers: SmallVec<[(Gpr, &'a Argument); 4]>,
    /// What other registers of the function's begin with.
    contents: SmallVec<[(Gpr, Content); 2]>,
    /// The program's registers of which arguments are made.
    reads: u16,
    /// With the program's registers that stand for the function's.
    renaming: Renaming,
    /// Registers of the function's for which others are to be borrowed.
    borrows: u16,
    /// Registers that are borrowed as they are.
    fixed: u16,
}

/// Whether the function that an action calls, or that decides whether one is called, can stand where
/// it is called.
pub(in crate::inserted) fn is_possible(
    translation: &Translation,
    item: &Item,
    action: &Action,
) -> bool {
    match action {
        Action::Call(call) => Inlining::of(translation, item, call, Outcome::Ignored).is_some(),
        Action::CallIf { test, .. } => {
            Inlining::of(translation, item, test, Outcome::Needed).is_some()
        }
        _ => false,
    }
}

/// Emits a call of a function that can stand there.
pub(in crate::inserted) fn emit(
    translation: &mut Translation,
    item: &Item,
    action: &Action,
    flags_live: bool,
) {
    const POSSIBLE: &str = "it was asked whether that is possible";
    match action {
        Action::Call(call) => {
            let inlining = Inlining::of(translation, item, call, Outcome::Ignored).expect(POSSIBLE);
            let flags_live = flags_live && inlining.body().changes_flags;
            note(call.function as usize as u64, CallForm::Inlined);
            inlining.emit(translation, item, flags_live);
        }
        Action::CallIf { test, then } => {
            let jumps = emit_test(translation, item, test, flags_live).expect(POSSIBLE);
            let then = Action::Call(then.clone());
            rare_call::put_off(translation, (item, flags_live), jumps, then, None);
        }
        _ => unreachable!("{POSSIBLE}"),
    }
}

/// Emits a function that decides, and a jump that is taken if it says so; nothing, and `None`, if it
/// cannot stand there.
pub(in crate::inserted) fn emit_test(
    translation: &mut Translation,
    item: &Item,
    test: &AnalysisCall,
    flags_live: bool,
) -> Option<Jumps> {
    let inlining = Inlining::of(translation, item, test, Outcome::Needed)?;
    note(test.function as usize as u64, CallForm::Inlined);
    let renaming = inlining.emit(translation, item, flags_live);
    let result = renaming.get(gpr::RAX);
    let code = &mut translation.walk.builder.code;
    let rex = 0x40 | (result >> 3) << 2 | result >> 3;
    code.bytes(&[rex, 0x84, 0xc0 | (result & 7) << 3 | result & 7]); // test r8, r8
    Some(Jumps::from_slice(&[code.jump_forward_if(NOT_EQUAL)]))
}

impl<'a> Inlining<'a> {
    /// `None` if the function cannot stand where it is called.
    fn of(
        translation: &Translation,
        item: &Item,
        call: &'a AnalysisCall,
        result: Outcome,
    ) -> Option<Inlining<'a>> {
        let parts = translation.parts;
        let compiled = parts.compiled.get(call.function as usize as u64)?;
        let body = result.body(&compiled).filter(|body| !body.uses_stack)?;
        let walk = &*translation.walk;
        let reads = compiled.reads & body.registers.used;
        let tool = parts.tool.address() as u64;
        let own = [
            (gpr::RSI, Content::Slot(CallSlots::TOOL_STATE)),
            (gpr::RDI, Content::Constant(tool)),
        ];
        let own = own
            .into_iter()
            .filter(|(register, _)| reads & 1 << register != 0);
        let mut inlining = Inlining {
            in_slots: SmallVec::new(),
            in_registers: SmallVec::new(),
            contents: own.collect(),
            reads: 0,
            renaming: Renaming::default(),
            borrows: body.registers.used & !body.registers.fixed,
            fixed: body.registers.fixed,
            result,
            compiled: Arc::clone(&compiled),
        };
        for numbered in call.arguments.iter().enumerate() {
            inlining.add(walk, item, body, numbered)?;
        }
        let is_bound = walk.bound() & inlining.fixed != 0;
        let wanted = inlining.wanted();
        let fits = wanted <= Borrowed::available(inlining.avoided(walk));
        (!is_bound && fits).then_some(inlining)
    }

    /// Decides where an argument is to be; `None` if it cannot be there.
    fn add(
        &mut self,
        walk: &Walk,
        item: &Item,
        body: &Body,
        (number, argument): Numbered<'a>,
    ) -> Option<()> {
        let counts = matches!(item.layout.kind, Kind::JrcxzOrLoop { .. });
        match argument {
            Argument::Context(_) | Argument::Target => return None,
            Argument::Taken | Argument::Condition(_) if counts => return None,
            _ => {}
        }
        let reads = values::reads(argument);
        let is_register = matches!(argument, Argument::Register(_));
        if values::is_in_memory((number, argument)) {
            if reads & (walk.bound() | self.fixed) != 0 {
                return None;
            }
            self.reads |= reads;
            self.in_slots.push((number, argument));
            return Some(());
        }
        let register = values::REGISTERS[number];
        if self.compiled.reads & body.registers.used & 1 << register == 0 {
            return Some(());
        }
        if !is_register && reads & (walk.bound() | self.fixed) != 0 {
            return None;
        }
        self.reads |= reads & !walk.bound();
        let stands_for_it = match argument {
            Argument::Register(from) => {
                let is_kept = (body.registers.written | self.fixed) & 1 << register == 0;
                let is_there = (walk.bound() | self.fixed) & 1 << from == 0;
                (is_kept && is_there && *from != gpr::RSP).then_some(*from)
            }
            _ => None,
        };
        if let Some(from) = stands_for_it {
            self.renaming.set(register, from);
            self.borrows &= !(1 << register);
        } else {
            self.in_registers.push((register, argument));
        }
        Some(())
    }

    fn body(&self) -> &Body {
        let body = self.result.body(&self.compiled);
        body.expect("only a short function is inlined")
    }

    /// How many registers are to be borrowed beside those that are fixed.
    fn wanted(&self) -> usize {
        let spare = u32::from(!self.in_slots.is_empty());
        (self.borrows.count_ones() + spare + self.fixed.count_ones()) as usize
    }

    /// Registers that cannot be borrowed for others.
    fn avoided(&self, walk: &Walk) -> u16 {
        self.reads | walk.bound() | self.fixed
    }

    /// Emits the function. Returns where its registers are.
    fn emit(mut self, translation: &mut Translation, item: &Item, flags_live: bool) -> Renaming {
        let walk = &mut *translation.walk;
        let is_condition =
            |argument: &Argument| matches!(argument, Argument::Taken | Argument::Condition(_));
        let in_registers = self.in_registers.iter().map(|(_, argument)| *argument);
        let mut arguments = in_registers.chain(self.in_slots.iter().map(|(_, it)| *it));
        if arguments.any(is_condition) {
            walk.borrowed.give_back_flags(&mut walk.builder);
        }
        walk.give_back(self.reads);
        let loaded = self.borrow(walk, item, translation.own.touched);
        self.load(walk, item, loaded);
        if flags_live {
            walk.borrowed.take_flags(&mut walk.builder, true);
        }
        let code = &mut walk.builder.code;
        quick::keep_vectors(code, self.compiled.vectors);
        let body = self.body();
        let start = code.here();
        body_code::put(code, body, &self.renaming);
        let end = code.here();
        quick::give_back_vectors(code, self.compiled.vectors);
        for &(number, argument) in &self.in_slots {
            if let Argument::Changeable(register) = *argument {
                quick::load_changed(code, register, number);
            }
        }
        for register in numbers(body.registers.written) {
            walk.borrowed.forget_content(self.renaming.get(register));
        }
        translation.own.tool_code.push(start..end);
        self.renaming
    }

    /// Borrows registers, and puts arguments into slots meanwhile. Returns the function's registers
    /// that have their contents already. `touched_by_all`: what the superblock's own instructions
    /// touch, which would have to be given back to them.
    fn borrow(&mut self, walk: &mut Walk, item: &Item, touched_by_all: u16) -> u16 {
        let all = self.avoided(walk);
        let touched = item.uses().read | item.uses().written;
        let possible = |avoided: &u16| self.wanted() <= Borrowed::available(*avoided);
        let avoided = [all | touched_by_all, all | touched]
            .into_iter()
            .find(possible);
        let avoided = avoided.unwrap_or(all);
        let mut taken = 0;
        for register in numbers(self.fixed) {
            walk.take_register(register, taken);
            taken |= 1 << register;
        }
        let mut loaded = 0;
        for &(register, content) in &self.contents {
            let held = walk.borrowed.with_content(content, avoided | taken);
            if let Some(held) = held.filter(|_| self.borrows & 1 << register != 0) {
                self.renaming.set(register, held);
                taken |= 1 << held;
                loaded |= 1 << register;
            }
        }
        let mut take = |walk: &mut Walk| {
            let another = walk
                .borrowed
                .take_another(&mut walk.builder, avoided, taken);
            let another = another.expect("it was asked how many can be taken");
            taken |= 1 << another;
            another
        };
        for register in numbers(self.borrows & !loaded) {
            self.renaming.set(register, take(walk));
        }
        if !self.in_slots.is_empty() {
            let mut registers = Registers {
                saved: 1 << take(walk),
                taken: 0,
            };
            for &numbered in &self.in_slots {
                values::store(&mut walk.builder.code, item, numbered, &mut registers);
            }
        }
        loaded
    }

    /// Emits what puts arguments, and what else the function needs, into registers.
    fn load(&self, walk: &mut Walk, item: &Item, loaded: u16) {
        let none = || Registers { saved: 0, taken: 0 };
        for &(register, argument) in &self.in_registers {
            let to = self.renaming.get(register);
            let slot = match *argument {
                Argument::Register(from) => program_slot(walk, from),
                _ => None,
            };
            let code = &mut walk.builder.code;
            match slot {
                Some(slot) => code.load_slot(to, slot),
                None => values::load(code, item, argument, to, &mut none()),
            }
        }
        for &(register, content) in &self.contents {
            if loaded & 1 << register == 0 {
                let to = self.renaming.get(register);
                content.load(&mut walk.builder.code, to);
                walk.borrowed.keep_content(to, content);
            }
        }
    }
}

/// The slot of the program's value of a register that is bound, or borrowed.
fn program_slot(walk: &Walk, register: Gpr) -> Option<i32> {
    let bound = walk.binding.and_then(|binding| {
        let mut bound = binding.all();
        bound.find(|&(bound, _)| bound == register)
    });
    bound
        .map(|(_, slot)| offset::spill(slot))
        .or_else(|| walk.borrowed.slot_of(register))
}
