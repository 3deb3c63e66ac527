//! The walk over the instructions of a superblock.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::{Cache, Exit, NewFragment};
use unspool_code_cache::emit::{Emitter, Gpr};
use unspool_code_cache::exit::{ExitKind, Reason, Version};
use unspool_instructions::decode::Instruction;
use unspool_instructions::operands::RegisterUse;

use super::borrowed::Borrowed;
use super::{Inserter, PathEnd};
use crate::translate::copy::Builder;
use crate::translate::live_flags::Lookahead;
use crate::translate::reader::WINDOW;
use crate::translate::superblock::{Item, Limits, SuperblockEnd};

/// Those who insert, in the order of their clients.
pub(crate) type Inserters<'a> = &'a mut [Box<dyn Inserter>];

/// A way out of the superblock by a conditional branch on which something is to be done.
pub(in crate::translate) struct SideExit {
    /// The field of the jump to the code that does it.
    pub(in crate::translate) field: CacheAddress,
    /// The number of the branch.
    pub(in crate::translate) number: usize,
    pub(in crate::translate) target: u64,
}

/// A fragment that is being made.
pub struct Walk<'a> {
    /// Where the fragment goes.
    pub cache: &'a Cache,
    /// Its code so far, and what is known of it.
    pub builder: Builder,
    /// The registers that are bound, if any are.
    pub binding: Option<RegisterBinding>,
    /// What inserted code has borrowed of the program's state.
    pub borrowed: Borrowed,
    /// The number of the instruction that is being translated.
    pub number: usize,
    /// Where its code begins.
    pub(crate) item_start: CacheAddress,
    /// Whether calls leave addresses in the cache below the stack, by which returns are predicted.
    pub(in crate::translate) pairs_calls: bool,
    /// Whether each call is made at one place, whichever superblock it is in: see
    /// [`CallSites`](crate::translate::superblock::CallSites).
    pub(in crate::translate) shares_calls: bool,
    pub(in crate::translate) side_exits: Vec<SideExit>,
    /// Whether the last instruction leaves with other registers bound.
    exchanged: bool,
    /// Whether nothing is inserted: blocks follow each other, and each can be entered.
    pub(in crate::translate) plain: bool,
    disturbed: Vec<bool>,
    leaves_out: bool,
    alone: bool,
    ahead: Lookahead<'a>,
}

impl<'a> Walk<'a> {
    pub(in crate::translate) fn new(
        cache: &'a Cache,
        builder: Builder,
        binding: Option<RegisterBinding>,
        ahead: Lookahead<'a>,
        limits: &dyn Limits,
    ) -> Walk<'a> {
        Walk {
            shares_calls: limits.call_sites().is_some(),
            pairs_calls: limits.pairs_calls(),
            leaves_out: limits.leaves_out(),
            alone: limits.is_alone(),
            plain: false,
            borrowed: match binding {
                None => Borrowed::with_target_kept(),
                Some(_) => Borrowed::default(),
            },
            binding,
            ..Walk::plain(cache, builder, ahead)
        }
    }

    /// A fragment into which nothing is inserted.
    pub(in crate::translate) fn plain(
        cache: &'a Cache,
        builder: Builder,
        ahead: Lookahead<'a>,
    ) -> Walk<'a> {
        Walk {
            cache,
            builder,
            binding: None,
            borrowed: Borrowed::default(),
            number: 0,
            item_start: CacheAddress::NOWHERE,
            pairs_calls: true,
            shares_calls: false,
            side_exits: Vec::new(),
            exchanged: false,
            plain: true,
            disturbed: Vec::new(),
            leaves_out: false,
            alone: true,
            ahead,
        }
    }

    /// Which version of the code it is, if the thread has chosen it in another fragment.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.builder.new_fragment.version
    }

    /// The code, and what is known of it.
    pub(in crate::translate) fn into_parts(self) -> (Emitter, NewFragment) {
        (self.builder.code, self.builder.new_fragment)
    }

    /// Emits the whole superblock.
    pub(in crate::translate) fn run(
        &mut self,
        inserters: Inserters,
        items: &mut Vec<Item>,
        end: SuperblockEnd,
        by_indirect_branch: bool,
    ) {
        self.entry(inserters, by_indirect_branch);
        let end = self.decide(inserters, items, end);
        for (number, item) in items.iter().enumerate() {
            let live = items.get(number + 1).is_none_or(|next| next.flags_live);
            self.item(inserters, item, (number, live));
        }
        self.end(inserters, items, &end);
        if let (true, Some(binding)) = (self.exchanged, self.binding) {
            // What follows belongs to places before the exchange.
            self.builder.end_spills();
            self.builder.note_spills(binding);
        }
        for exit in std::mem::take(&mut self.side_exits) {
            self.builder.code.land(exit.field);
            self.number = exit.number;
            for inserter in inserters.iter_mut() {
                inserter.aside(self, &items[exit.number], exit.target);
            }
            self.give_back_all();
            self.exit(exit.target);
        }
        for inserter in inserters.iter_mut() {
            inserter.finish(self, items);
        }
        self.builder.finish_calls();
        self.builder.end_spills();
    }

    /// Where the superblock is entered. If registers are bound, then behind what binds them, too.
    pub(in crate::translate) fn entry(&mut self, inserters: Inserters, by_indirect_branch: bool) {
        let pc = self.builder.new_fragment.pc;
        let start = self.builder.code.here();
        let (mut entry, mut bound) = (start, CacheAddress::NOWHERE);
        if self.binding.is_none() && by_indirect_branch {
            let spill = self.builder.target_spill();
            let stub = self.builder.target_stub();
            self.builder.end_spill(spill);
            self.builder.new_fragment.target_stubs.push((pc, stub));
            entry = self.builder.code.here();
        }
        let mut is_only_entry = false;
        if self.version().is_none() {
            for inserter in inserters {
                is_only_entry |= inserter.at_entry(self);
            }
        }
        if let Some(binding) = self.binding {
            binding.spill(&mut self.builder.code);
            // A thread that is taken out at the start has nothing spilled yet, and between there
            // and here none is.
            self.builder.note_spills(binding);
            self.builder.new_fragment.binding = binding;
            if !is_only_entry {
                bound = self.builder.code.here();
            }
        }
        self.builder.new_fragment.prologue = u32::from(self.builder.offset());
        self.builder.new_fragment.entries.push((pc, entry, bound));
    }

    /// Asks who is furthest out first: what the others find is what that leaves.
    fn decide(
        &mut self,
        inserters: Inserters,
        items: &mut Vec<Item>,
        mut end: SuperblockEnd,
    ) -> SuperblockEnd {
        if !self.alone {
            self.disturbed.resize(items.len() + 1, false);
        }
        for inserter in inserters.iter_mut().rev() {
            end = inserter.decide(self, items, end);
        }
        for inserter in inserters {
            inserter.begin(self, items);
        }
        end
    }

    /// Whether there is one inserter only.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// Something is done before an instruction, or behind the one before it, by which registers and
    /// memory may change, and during which the thread may wait. Only where several insert:
    /// one that is alone knows.
    pub fn disturb(&mut self, number: usize) {
        self.disturbed[number] = true;
    }

    /// Whether what is known of registers and memory before an instruction is not to be relied on,
    /// because another inserter's function may be called there.
    #[inline]
    pub fn is_disturbed(&self, number: usize) -> bool {
        !self.alone && self.disturbed[number]
    }

    fn item(&mut self, inserters: Inserters, item: &Item, (number, live): (usize, bool)) {
        self.number = number;
        self.begin_item();
        if number == 0 && self.version().is_none() {
            for inserter in inserters.iter_mut().rev() {
                inserter.reached(self, item);
            }
            self.choose(inserters, item);
        }
        self.borrowed.settle_registers(&mut self.builder, item);
        for inserter in inserters.iter_mut().rev() {
            inserter.before(self, item);
        }
        if !item.left_out {
            self.borrowed.settle(&mut self.builder, item);
            self.execute(inserters, item);
        }
        for inserter in inserters.iter_mut() {
            inserter.after(self, item, live);
        }
        self.end_item(item);
    }

    /// The code of an instruction begins.
    pub(in crate::translate) fn begin_item(&mut self) {
        self.item_start = self.builder.code.here();
    }

    /// It ends.
    pub(in crate::translate) fn end_item(&mut self, item: &Item) {
        let emitted = self.builder.code.here().bytes_since(self.item_start);
        let length = item.layout.length;
        self.builder.new_fragment.pc_map.push((length, emitted));
    }

    fn end(&mut self, inserters: Inserters, items: &[Item], end: &SuperblockEnd) {
        for inserter in inserters.iter_mut() {
            inserter.at_end(self, items, end);
        }
        self.give_back_all();
        let executed = items.len();
        match *end {
            SuperblockEnd::Transfer => {}
            SuperblockEnd::Continue(pc) => self.leave_here(inserters, executed, pc),
            SuperblockEnd::Unfetchable(pc) => {
                self.leave(inserters, executed, ExitKind::Unfetchable, pc)
            }
            SuperblockEnd::Annotation(pc) => {
                self.leave(inserters, executed, ExitKind::Annotation, pc)
            }
        }
    }

    /// Whether the code at an address may read flags before it overwrites them.
    pub fn flags_live_at(&mut self, pc: u64) -> bool {
        // Code that is left out overwrites nothing.
        self.leaves_out || self.ahead.live_flags_at(pc) & RegisterUse::STATUS != 0
    }

    /// The program's instruction at an address, as far as it can be fetched.
    pub(in crate::translate) fn fetch(&mut self, pc: u64) -> Option<(Instruction, [u8; WINDOW])> {
        self.ahead.instruction(pc)
    }

    /// A path ends.
    pub(in crate::translate) fn close(
        &mut self,
        inserters: Inserters,
        executed: usize,
        end: PathEnd,
    ) -> bool {
        let mut scratch_is_lost = false;
        for inserter in inserters {
            scratch_is_lost |= inserter.close(self, executed, end);
        }
        scratch_is_lost
    }

    /// Leaves by a jump that can be linked, behind so many instructions.
    pub(in crate::translate) fn leave_here(
        &mut self,
        inserters: Inserters,
        executed: usize,
        target: u64,
    ) {
        self.close(inserters, executed, PathEnd::Exit(Some(target)));
        self.exit(target);
    }

    /// Emits a jump that can be linked.
    pub(in crate::translate) fn exit(&mut self, target: u64) {
        match self.binding {
            Some(binding) => self.builder.exit_bound(target, binding),
            None => self.builder.exit_jump(None, ExitKind::Direct, target),
        }
    }

    /// Leaves the cache with all program state in place, behind so many instructions.
    pub(in crate::translate) fn leave(
        &mut self,
        inserters: Inserters,
        executed: usize,
        kind: ExitKind,
        target: u64,
    ) {
        self.close(inserters, executed, PathEnd::Exit(None));
        if let Some(binding) = self.binding {
            binding.restore(&mut self.builder.code);
        }
        self.gate_exit(Exit::new(kind, target));
    }

    /// Emits a way out by the gate.
    pub(crate) fn gate_exit(&mut self, exit: Exit) {
        let exits = &mut self.builder.new_fragment.exits;
        let index = self.cache.exit_index(exits.len());
        exits.push(exit);
        let reason = Reason::exit(index);
        self.builder.code.leave(reason, self.cache.gates.exit);
    }

    /// Emits a call into the engine; the thread goes on behind it.
    pub fn clean_call(&mut self, exit: Exit) {
        self.gate_exit(exit);
        let stub = self.builder.code.here();
        let exits = &mut self.builder.new_fragment.exits;
        exits.last_mut().expect("it was just added").stub = stub;
    }

    /// Where indirect branches arrive, these registers are bound. Those of this superblock are
    /// restored for them; scratch keeps its content.
    pub(in crate::translate) fn exchange(&mut self) {
        let usual = self.cache.convention().binding();
        let Some(own) = self.binding.filter(|own| *own != usual) else {
            return;
        };
        self.builder.end_spills();
        own.exchange_all(usual, &mut self.builder.code);
        self.builder.note_spills(usual);
        self.exchanged = true;
    }

    /// Registers that inserted code may use until it ends, beside those of a mask: see
    /// [`Borrowed::take`].
    pub fn take_registers<const COUNT: usize>(&mut self, avoided: u16) -> [Gpr; COUNT] {
        self.borrowed.take(&mut self.builder, self.binding, avoided)
    }

    /// A certain register, which inserted code may use until it ends, beside those of a mask.
    pub fn take_register(&mut self, register: Gpr, others: u16) {
        self.borrowed.take_this(&mut self.builder, register, others);
    }

    /// Whether inserted code may change the flags, given whether the program may still read them.
    #[inline]
    pub fn flags_are_free(&self, live: bool) -> bool {
        !live || self.borrowed.has_flags()
    }

    /// Emits what puts back those registers of a mask that are borrowed.
    pub fn give_back(&mut self, mask: u16) {
        self.borrowed.give_back(&mut self.builder, mask);
    }

    /// Emits what puts back all that is borrowed.
    pub fn give_back_all(&mut self) {
        self.borrowed.give_back_all(&mut self.builder);
    }

    /// Emits what puts back what is borrowed and what is bound: all program state is in place
    /// behind it.
    pub fn restore(&mut self) {
        self.give_back_all();
        if let Some(binding) = self.binding {
            binding.restore(&mut self.builder.code);
            self.builder.end_spills();
        }
    }

    /// Emits what binds the registers again.
    pub fn spill(&mut self) {
        if let Some(binding) = self.binding {
            binding.spill(&mut self.builder.code);
            self.builder.note_spills(binding);
        }
    }

    /// The registers that are bound, as a mask.
    #[inline]
    pub fn bound(&self) -> u16 {
        self.binding.map_or(0, RegisterBinding::mask)
    }
}
