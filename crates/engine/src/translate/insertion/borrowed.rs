//! What inserted code has borrowed of the program's state: general registers, and the status flags.
//!
//! The program's value of what is borrowed waits in a spill slot, and where from and how long that
//! is so, the fragment says ([`SpillInterval`]): signals, faults and debuggers see the program's
//! state as it is natively. It is not given back where the inserted code ends, but
//!
//! - before an instruction that uses it, and before all but plain instructions (but for the register of
//!   targets before an indirect branch, which puts its target there);
//! - before whatever looks at the program's state: a call, a way out of the superblock;
//! - never, if an instruction overwrites it first: then it was dead.
//!
//! So neighbouring insertions, whoever has them made, share one spill. Registers that are bound for
//! the whole superblock are not borrowed: where there are any, scratch is free in any case.

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::{FLAGS, SpillInterval};
use unspool_code_cache::emit::{Emitter, Gpr, TARGET, gpr};
use unspool_code_cache::slots::{TARGET_SPILL, offset};
use unspool_instructions::decode::{Kind, Segment};
use unspool_instructions::operands::RegisterUse;

use crate::translate::copy::Builder;
use crate::translate::item::Item;

/// The spill slot of rax for a moment.
pub const RAX_SPILL: u8 = 5;
/// The spill slot of the flags.
pub const FLAGS_SPILL: u8 = 6;
/// The spill slots of borrowed registers: that of the register of targets, and those of others.
const REGISTER_SPILLS: [u8; 7] = [TARGET_SPILL, 8, 9, 10, 11, 12, 13];
/// How many registers can be borrowed at once, whichever they are.
const MOST: usize = REGISTER_SPILLS.len() - 1;

/// Which registers are borrowed: those that compilers use last come first. rax has other duties.
const CANDIDATES: [Gpr; 10] = [
    8,
    9,
    10,
    gpr::RSI,
    gpr::RDI,
    gpr::RDX,
    gpr::RCX,
    gpr::RBX,
    14,
    15,
];

/// What is borrowed at one point of a superblock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Borrowed {
    /// Whether the slot of the register of targets has the program's value of it in any case.
    keeps_target: bool,
    /// A register that inserted code has for itself wherever flags are taken or given back.
    scratch: Option<Gpr>,
    flags: Option<SpillInterval>,
    /// In the order of their spill slots. That of the register of targets is borrowed there only where its
    /// slot has the program's value in any case.
    registers: [Option<BorrowedRegister>; REGISTER_SPILLS.len()],
}

/// A register that is borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BorrowedRegister {
    spill: SpillInterval,
    content: Option<Content>,
}

/// What inserted code has left in a borrowed register for inserted code further on: something that
/// is the same throughout the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The word in a slot.
    Slot(i32),
    /// A constant.
    Constant(u64),
}

impl Content {
    /// Emits what puts it into a register.
    pub fn load(self, code: &mut Emitter, to: Gpr) {
        match self {
            Content::Slot(slot) => code.load_slot(to, slot),
            Content::Constant(value) => code.load_immediate(to, value),
        }
    }
}

impl Borrowed {
    /// Nothing, where the slot of the register of targets has the program's value of it: see
    /// [`Slots::keep_target`](unspool_code_cache::slots::Slots::keep_target). Whoever borrows it need not
    /// store it, and whoever loads it when it is given back does not wait for that: so it is borrowed
    /// before all others.
    pub(super) fn with_target_kept() -> Borrowed {
        Borrowed {
            keeps_target: true,
            ..Borrowed::default()
        }
    }

    /// Whoever inserts has this register for itself, and nothing in it where flags are taken or come back.
    pub fn lend_scratch(&mut self, scratch: Gpr) {
        self.scratch = Some(scratch);
    }

    /// Whether all program state is in place, but for what is bound.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.flags.is_none() && !self.has_registers()
    }

    #[inline]
    fn has_registers(&self) -> bool {
        self.registers.iter().any(Option::is_some)
    }

    /// Emits what allows code to change the flags from here on. `live`: whether the program may
    /// still read them.
    pub fn take_flags(&mut self, builder: &mut Builder, live: bool) {
        if !live || self.flags.is_some() {
            return;
        }
        self.around_rax(&mut builder.code, store_flags);
        self.flags = Some(spilled_from_here(builder, FLAGS, FLAGS_SPILL));
    }

    /// Whether the program's flags are in their slot.
    pub fn has_flags(&self) -> bool {
        self.flags.is_some()
    }

    /// Emits what puts them back, if they are in their slot.
    pub fn give_back_flags(&mut self, builder: &mut Builder) {
        if let Some(spill) = self.flags.take() {
            self.around_rax(&mut builder.code, load_flags);
            builder.end_spill(spill);
        }
    }

    /// Emits what changes rax for a moment, which waits in a register, if one is free: through memory
    /// its value would arrive late, and each such place would wait for the one before.
    fn around_rax(&self, code: &mut Emitter, emit: impl FnOnce(&mut Emitter)) {
        let target = Some(TARGET).filter(|_| self.keeps_target && self.registers[0].is_none());
        let Some(free) = self.scratch.or(target) else {
            return around_rax_in_slot(code, emit);
        };
        code.copy(free, gpr::RAX);
        emit(code);
        code.copy(gpr::RAX, free);
        if self.scratch.is_none() {
            code.load_slot(TARGET, offset::spill(TARGET_SPILL));
        }
    }

    /// Registers that inserted code may use until it ends, and none of them is in the mask
    /// `avoided`. What it reads itself must be in the mask, and in place: see
    /// [`Borrowed::give_back`].
    ///
    /// # Panics
    /// If there are not so many.
    pub fn take<const COUNT: usize>(
        &mut self,
        builder: &mut Builder,
        binding: Option<RegisterBinding>,
        avoided: u16,
    ) -> [Gpr; COUNT] {
        let avoided = avoided | binding.map_or(0, RegisterBinding::mask);
        let mut taken = 0;
        let bound = binding.map(RegisterBinding::scratch);
        let mut bound = bound.filter(|scratch| avoided & 1 << scratch == 0);
        [(); COUNT].map(|()| {
            let register = bound
                .take()
                .or_else(|| self.take_another(builder, avoided, taken));
            let register = register.expect("an instruction touches six registers at most");
            taken |= 1 << register;
            register
        })
    }

    /// One that is not in a mask, as [`Borrowed::take`]; `None` if there is none.
    pub fn take_one(&mut self, builder: &mut Builder, avoided: u16) -> Option<Gpr> {
        self.take_another(builder, avoided, 0)
    }

    /// One beside those that were `taken` before it, and that is not in a mask; `None` if there is
    /// none.
    pub fn take_another(&mut self, builder: &mut Builder, avoided: u16, taken: u16) -> Option<Gpr> {
        let is_free = |register: Gpr| (avoided | taken) & 1 << register == 0;
        let mut held = self.registers.iter().flatten();
        let empty = held.find(|held| held.content.is_none() && is_free(held.spill.register));
        if let Some(held) = empty {
            return Some(held.spill.register);
        }
        let target = self.keeps_target.then_some(TARGET);
        let candidates = target.into_iter().chain(CANDIDATES);
        let mut candidates = candidates.filter(|&register| is_free(register));
        let another = candidates.find(|&register| self.slot_of(register).is_none());
        if let Some(register) = another
            && self
                .places_of(register)
                .any(|place| self.registers[place].is_none())
        {
            self.take_this(builder, register, taken);
            return Some(register);
        }
        let mut held = self.registers.iter_mut().flatten();
        if let Some(held) = held.find(|held| is_free(held.spill.register)) {
            held.content = None;
            return Some(held.spill.register);
        }
        let register = another?;
        self.take_this(builder, register, taken);
        Some(register)
    }

    /// Emits what allows code to change a certain register, beside those that were `taken` before it.
    pub(crate) fn take_this(&mut self, builder: &mut Builder, register: Gpr, taken: u16) {
        if self.slot_of(register).is_some() {
            self.forget_content(register);
            return;
        }
        let may_leave = |&place: &usize| {
            self.registers[place].is_none_or(|held| taken & 1 << held.spill.register == 0)
        };
        let mut places = self.places_of(register);
        let place = places.find(|&place| self.registers[place].is_none());
        let place = place.or_else(|| self.places_of(register).find(may_leave));
        let place = place.expect("fewer registers are taken at once than there are slots");
        self.give_back_place(builder, place);
        let slot = REGISTER_SPILLS[place];
        if slot != TARGET_SPILL {
            builder.code.store_slot(offset::spill(slot), register);
        }
        self.registers[place] = Some(BorrowedRegister {
            spill: spilled_from_here(builder, register, slot),
            content: None,
        });
    }

    /// Where a register's spill slot may be.
    fn places_of(&self, register: Gpr) -> std::ops::Range<usize> {
        match self.keeps_target && register == TARGET {
            true => 0..1,
            false => 1..REGISTER_SPILLS.len(),
        }
    }

    /// Ends the borrowing of the register of targets where it has got a target.
    pub(super) fn leave_target(&mut self, builder: &mut Builder) {
        if let Some(BorrowedRegister { spill, .. }) = self.registers[0].take() {
            builder.end_spill(spill);
        }
    }

    /// How many registers that are not in a mask can be taken at once.
    pub fn available(avoided: u16) -> usize {
        let candidates = CANDIDATES.into_iter();
        let free = candidates.filter(|register| avoided & 1 << register == 0);
        free.count().min(MOST)
    }

    /// A register with some content, if it is not in a mask.
    pub fn with_content(&self, content: Content, avoided: u16) -> Option<Gpr> {
        let mut held = self.registers.iter().flatten();
        let held = held
            .find(|held| held.content == Some(content) && avoided & 1 << held.spill.register == 0);
        held.map(|held| held.spill.register)
    }

    /// Keeps in mind what inserted code has put into a register that it has taken.
    pub fn keep_content(&mut self, register: Gpr, content: Content) {
        let mut held = self.registers.iter_mut().flatten();
        if let Some(held) = held.find(|held| held.spill.register == register) {
            held.content = Some(content);
        }
    }

    /// Inserted code has changed a register.
    pub fn forget_content(&mut self, register: Gpr) {
        let mut held = self.registers.iter_mut().flatten();
        if let Some(held) = held.find(|held| held.spill.register == register) {
            held.content = None;
        }
    }

    /// The slot of the program's value of a register that is borrowed.
    pub fn slot_of(&self, register: Gpr) -> Option<i32> {
        let mut held = self.registers.iter().flatten();
        let held = held.find(|held| held.spill.register == register)?;
        Some(offset::spill(held.spill.slot))
    }

    /// Emits what puts back those registers of a mask that are borrowed.
    pub fn give_back(&mut self, builder: &mut Builder, mask: u16) {
        for place in 0..self.registers.len() {
            let held = self.registers[place];
            if held.is_some_and(|held| mask & 1 << held.spill.register != 0) {
                self.give_back_place(builder, place);
            }
        }
    }

    fn give_back_place(&mut self, builder: &mut Builder, place: usize) {
        if let Some(BorrowedRegister { spill, .. }) = self.registers[place].take() {
            let slot = offset::spill(spill.slot);
            builder.code.load_slot(spill.register, slot);
            builder.end_spill(spill);
        }
    }

    /// Emits what puts back all that is borrowed.
    pub(crate) fn give_back_all(&mut self, builder: &mut Builder) {
        if !self.is_empty() {
            self.give_back_flags(builder);
            self.give_back(builder, u16::MAX);
        }
    }

    /// Emits, before an instruction, what puts back the registers that it uses.
    #[inline]
    pub(crate) fn settle_registers(&mut self, builder: &mut Builder, item: &Item) {
        if self.has_registers() {
            self.give_back(builder, self.needed(item));
        }
    }

    /// Emits, right before the copy of an instruction, what puts back all that it uses. Flags that
    /// it overwrites are dead.
    #[inline]
    pub fn settle(&mut self, builder: &mut Builder, item: &Item) {
        self.settle_registers(builder, item);
        if self.flags.is_some() {
            self.settle_flags(builder, item);
        }
    }

    fn settle_flags(&mut self, builder: &mut Builder, item: &Item) {
        let uses = item.uses();
        let untouched = (uses.flags_read | uses.flags_written) & RegisterUse::STATUS == 0;
        let overwritten = uses.flags_overwritten & RegisterUse::STATUS == RegisterUse::STATUS
            && uses.flags_read & RegisterUse::STATUS == 0;
        match item.layout.kind {
            Kind::Plain if untouched => {}
            Kind::Plain if overwritten => {
                let spill = self.flags.take().expect("they are in their slot");
                builder.end_spill(spill);
            }
            _ => self.give_back_flags(builder),
        }
    }

    /// Which registers must be in place before the copy of an instruction.
    fn needed(&self, item: &Item) -> u16 {
        // What is copied with a register in the place of its base takes one that it thinks unused.
        let in_gs = item.layout.segment == Some(Segment::Gs);
        let is_rewritten = item.layout.rip_relative || in_gs || item.elsewhere.is_some();
        match item.layout.kind {
            Kind::Plain if !is_rewritten => {
                let uses = item.uses();
                uses.read | uses.written & !uses.overwritten
            }
            // Their target goes into the register of targets.
            Kind::Return { .. } | Kind::JumpIndirect | Kind::CallIndirect
                if self.registers[0].is_some() && item.uses().read & 1 << TARGET == 0 =>
            {
                !(1 << TARGET)
            }
            _ => u16::MAX,
        }
    }

    /// Right behind the copy of an instruction: what it has overwritten was dead.
    #[inline]
    pub(crate) fn forget_overwritten(&mut self, builder: &mut Builder, item: &Item) {
        if self.has_registers() {
            let overwritten = item.uses().overwritten;
            for held in &mut self.registers {
                let is_dead =
                    |held: &mut BorrowedRegister| overwritten & 1 << held.spill.register != 0;
                if let Some(held) = held.take_if(is_dead) {
                    builder.end_spill(held.spill);
                }
            }
        }
    }

    /// The same where a jump from there leads: the program's values are in their slots from here on.
    #[must_use]
    pub fn begun_here(&self, builder: &Builder) -> Borrowed {
        let start = builder.offset();
        let mut here = *self;
        let registers = here.registers.iter_mut().flatten();
        let spills = registers.map(|held| &mut held.spill);
        for spill in spills.chain(&mut here.flags) {
            (spill.start, spill.end) = (start, start);
        }
        here
    }

    /// Emits what leaves borrowed, on a way back to where `wanted` is, what is borrowed there. Since
    /// the way began there, neither a register of the program nor a flag has changed.
    pub(super) fn become_as(mut self, builder: &mut Builder, wanted: &Borrowed) {
        let register = |held: Option<BorrowedRegister>| held.map(|held| held.spill.register);
        for place in 0..self.registers.len() {
            if register(self.registers[place]) != register(wanted.registers[place]) {
                self.give_back_place(builder, place);
            }
        }
        if wanted.flags.is_none() {
            self.give_back_flags(builder);
        }
        let code = &mut builder.code;
        for (held, wanted) in self.registers.iter().zip(&wanted.registers) {
            let Some(BorrowedRegister { spill, content }) = *wanted else {
                continue;
            };
            if held.is_none() {
                code.store_slot(offset::spill(spill.slot), spill.register);
            }
            let is_there = held.is_some_and(|held| held.content == content);
            if let Some(content) = content.filter(|_| !is_there) {
                content.load(code, spill.register);
            }
        }
    }

    /// Emits the return of all that is borrowed, on one of two ways that part here.
    pub fn restore(&self, code: &mut Emitter) {
        if self.flags.is_some() {
            around_rax_in_slot(code, load_flags);
        }
        for BorrowedRegister { spill, .. } in self.registers.iter().flatten() {
            code.load_slot(spill.register, offset::spill(spill.slot));
        }
    }

    /// Emits that it is borrowed again. The slots still have the program's values, but for registers
    /// of a mask that were changed, and the flags if all were.
    pub(super) fn spill(&self, code: &mut Emitter, changed: u16) {
        for BorrowedRegister { spill, content } in self.registers.iter().flatten() {
            if changed & 1 << spill.register != 0 {
                code.store_slot(offset::spill(spill.slot), spill.register);
            }
            if let Some(content) = content {
                content.load(code, spill.register);
            }
        }
        if self.flags.is_some() && changed == u16::MAX {
            around_rax_in_slot(code, store_flags);
        }
    }
}

fn spilled_from_here(builder: &Builder, register: Gpr, slot: u8) -> SpillInterval {
    let start = builder.offset();
    SpillInterval {
        start,
        end: start,
        register,
        slot,
    }
}

fn around_rax_in_slot(code: &mut Emitter, emit: impl FnOnce(&mut Emitter)) {
    code.store_slot(offset::spill(RAX_SPILL), gpr::RAX);
    emit(code);
    code.load_slot(gpr::RAX, offset::spill(RAX_SPILL));
}

/// Emits that the flags are in their slot, by way of rax.
fn store_flags(code: &mut Emitter) {
    code.take_flags();
    code.store_slot(offset::spill(FLAGS_SPILL), gpr::RAX);
}

/// Emits that they are in place again, by way of rax.
fn load_flags(code: &mut Emitter) {
    code.load_slot(gpr::RAX, offset::spill(FLAGS_SPILL));
    code.bring_back_flags();
}

#[cfg(test)]
mod tests;
