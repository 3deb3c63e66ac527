//! Translation with what a tool inserts.
//!
//! A fragment is one superblock (see [`superblock`](super::superblock)). All program state is
//! in place between its instructions: what is inserted gives back what it spills. Only where
//! the tool has buffers, registers that the superblock does not touch are spilled throughout
//! ([`appends`]).
//!
//! What is counted along a path is added up while translating and added to the counters once
//! ([`counts`]), where the flags are dead if there is such a place.

mod activations;
mod appends;
mod calls;
mod counts;
mod ends;
mod execute;
mod hooks;
mod rarely;
mod scratch;
mod watched;

use std::ops::Range;

use self::appends::Pending;
use self::calls::Followed;
use self::counts::{Tally, inside_is_taken};
pub(crate) use self::hooks::sets_stack_pointer;
use self::scratch::Scratch;
use super::Source;
use super::copy::Builder;
use super::live_flags::{Lookahead, find_live_flags};
use super::reader::CodeReader;
use super::superblock::{End, Item, Limits, fetch, runs_on, turns};
use crate::binding::RegisterBinding;
use crate::cache::{Cache, CacheFull, Exit};
use crate::exit::ExitKind;
use crate::instrument::{
    Action, Amounts, FragmentCounts, Insertions, Instrumenter, MOST_BUFFERS, Superblock,
};
use unspool_instructions::decode::Kind;
use unspool_instructions::operands::RegisterUse;

/// A path that leaves the superblock by a conditional branch.
struct Leaving {
    /// The field of the jump to the code that finishes it.
    field: u64,
    /// The number of the branch.
    number: usize,
    target: u64,
    /// What is still to be added to counters.
    due: Amounts,
    /// What has been appended to buffers.
    pending: Pending,
}

/// Translates the superblock at `pc` and makes it part of the cache. With `by_indirect_branch` an
/// indirect branch has just come there.
///
/// # Errors
/// If the cache is full.
pub(crate) fn translate(
    instrumenter: &Instrumenter,
    cache: &mut Cache,
    source: &Source,
    pc: u64,
    by_indirect_branch: bool,
) -> Result<(), CacheFull> {
    let mut builder = Builder::new(cache.begin(pc)?, pc, source.vdso);
    let (mut items, mut inserted) = instrumenter.room();
    let mut code = CodeReader::new(source);
    let end = fetch(cache, (source, &mut code), pc, instrumenter, &mut items);
    let mut ahead = Lookahead::new(code);
    if !instrumenter.tool.leaves_out() {
        // What is left out overwrites no flags.
        find_live_flags(&mut ahead, &mut items, &end);
    }
    let binding = binding_for(instrumenter, &items);
    let start = builder.code.here();
    let mut bound = 0;
    if let Some(binding) = binding {
        binding.spill(&mut builder.code);
        builder.note_spills(binding);
        bound = builder.code.here() as u32;
        builder.new_fragment.prologue = u32::from(builder.offset());
        builder.new_fragment.binding = binding;
    } else if by_indirect_branch {
        let spill = builder.target_spill();
        let target_stub = builder.target_stub();
        builder.end_spill(spill);
        builder.new_fragment.prologue = u32::from(builder.offset());
        builder
            .new_fragment
            .target_stubs
            .push((pc, target_stub as u32));
    }
    let entry = match binding {
        Some(_) => start as u32,
        None => builder.code.here() as u32,
    };
    builder.new_fragment.entries.push((pc, entry, bound));
    if !items.is_empty() {
        let superblock = Superblock::new(&items, inserted);
        crate::instrument::translate(instrumenter, &superblock);
        inserted = superblock.into_inserted();
    }
    let mut insertions = inserted.by_instruction(items.len());
    let end = ends::replace(&mut items, &mut insertions, end);
    let end = ends::fit(instrumenter, &mut items, &insertions, end);
    let mut translation = Translation {
        instrumenter,
        cache,
        ahead,
        builder,
        tally: Tally::new(&items, &insertions, matches!(end, End::Transfer)),
        leaving: Vec::new(),
        binding,
        pending: [0; MOST_BUFFERS],
        appended: Vec::new(),
        repetitions: Vec::new(),
        exchanged: false,
        number: 0,
        at: pc,
        completed: false,
        is_aside: false,
        followed: Vec::new(),
        interrupted: Vec::new(),
        tool_code: Vec::new(),
        item_start: 0,
    };
    translation.run(&items, &insertions, end);
    instrumenter.add_tool_code(&translation.tool_code);
    let Translation {
        builder,
        tally,
        appended,
        repetitions,
        ..
    } = translation;
    let mut new_fragment = builder.new_fragment;
    new_fragment.turns = turns(&items);
    new_fragment.trace = instrumenter.add_fragment(FragmentCounts {
        due: tally.due,
        added: tally.added,
        appended,
        repetitions,
        binding,
    });
    cache.commit(&builder.code, new_fragment);
    instrumenter.keep_room(items, inserted);
    Ok(())
}

/// The registers that the instructions' code has spilled, if it has any.
fn binding_for(instrumenter: &Instrumenter, items: &[Item]) -> Option<RegisterBinding> {
    let count = instrumenter.bound_registers();
    if count == 0 {
        return None;
    }
    let uses = items
        .iter()
        .map(|item| item.uses().read | item.uses().written);
    let touched = uses.fold(0, |mask, used| mask | used);
    let binding = RegisterBinding::for_code(touched, count);
    Some(binding.expect("one instruction leaves enough registers alone"))
}

struct Translation<'a> {
    instrumenter: &'a Instrumenter,
    cache: &'a Cache,
    ahead: Lookahead<'a>,
    builder: Builder,
    tally: Tally,
    leaving: Vec<Leaving>,
    /// The registers spilled.
    binding: Option<RegisterBinding>,
    /// What the path has appended to buffers so far.
    pending: Pending,
    /// What instructions append on the path that stays inside.
    appended: Vec<(u32, crate::instrument::BufferId, u16)>,
    /// Where repeated string instructions are.
    repetitions: Vec<u32>,
    /// Whether the last instruction leaves with other registers spilled.
    exchanged: bool,
    /// The number of the instruction that is being translated.
    number: usize,
    /// The address at which the program goes on from the place that is being translated.
    at: u64,
    /// Whether that place is behind the instruction.
    completed: bool,
    /// Whether that place is on a way out of the superblock.
    is_aside: bool,
    /// Calls that are made only if others say so.
    followed: Vec<Followed>,
    /// The fields of jumps that are taken if something is pending behind a call, and where the
    /// thread goes on then.
    interrupted: Vec<(u64, u64)>,
    /// Where code of the tool has been put.
    tool_code: Vec<Range<u64>>,
    /// Where the code of the instruction begins that is being translated.
    item_start: u64,
}

impl Translation<'_> {
    fn run(&mut self, items: &[Item], insertions: &[Insertions], end: End) {
        for (index, (item, insertions)) in items.iter().zip(insertions).enumerate() {
            let before = self.builder.code.here();
            self.number = index;
            if index == 0 {
                (self.at, self.completed) = (item.pc, false);
                hooks::emit(self, item);
            }
            self.item_start = before;
            // A return does that where it has a register free.
            let is_return = matches!(item.layout.kind, Kind::Return { .. });
            let amounts = self.tally.before(index);
            if !amounts.is_empty() && (self.binding.is_some() || item.left_out || !is_return) {
                let scratch = Scratch::beside(Some(item));
                counts::add(&mut self.builder.code, amounts, item.flags_live, scratch);
            }
            (self.at, self.completed) = (item.pc, false);
            self.append_inside(index, insertions.before);
            self.act(item, insertions.before, item.flags_live);
            if !item.left_out {
                watched::emit(self, item);
            }
            if item.left_out || runs_on(item.layout.kind) {
                if !item.left_out {
                    self.execute(item, index, insertions);
                }
                (self.at, self.completed) = (item.goes_on(), true);
                let inside = if inside_is_taken(item) {
                    insertions.taken
                } else {
                    insertions.after
                };
                self.append_inside(index, inside);
                let live = items.get(index + 1).is_none_or(|next| next.flags_live);
                self.act(item, inside, live);
            } else {
                self.append_inside(index, insertions.taken);
                self.act(item, insertions.taken, item.flags_live);
                self.execute(item, index, insertions);
            }
            let emitted = (self.builder.code.here() - before) as u32;
            self.builder
                .new_fragment
                .pc_map
                .push((item.layout.length, emitted));
        }
        match end {
            End::Transfer => {}
            End::Continue(pc) => {
                let flags_live = !self.tally.at_end.is_empty() && self.flags_live_at(pc);
                self.add_at_end(flags_live);
                if let Some(last) = items.last() {
                    hooks::follow_stack(self, last);
                }
                self.leave_here(pc);
            }
            End::Unfetchable(pc) => {
                self.add_at_end(true);
                self.leave(ExitKind::Unfetchable, pc, 0);
            }
            End::Annotation(pc) => {
                self.add_at_end(true);
                self.leave(ExitKind::Annotation, pc, 0);
            }
        }
        if let (true, Some(binding)) = (self.exchanged, self.binding) {
            // What follows belongs to places before the exchange.
            self.builder.end_spills();
            self.note_spills(binding);
        }
        self.is_aside = true;
        for leaving in std::mem::take(&mut self.leaving) {
            self.builder.code.land(leaving.field);
            self.pending = leaving.pending;
            let item = &items[leaving.number];
            let outside = &insertions[leaving.number];
            let outside = if inside_is_taken(item) {
                outside.after
            } else {
                outside.taken
            };
            let nothing = leaving.due.is_empty() && outside.is_empty();
            let live = !nothing && self.flags_live_at(leaving.target);
            (self.number, self.at) = (leaving.number, leaving.target);
            self.add(&leaving.due, live, Scratch::beside(None));
            self.act(item, outside, live);
            self.leave_here(leaving.target);
        }
        calls::finish(self, items);
        self.builder.finish_calls();
        self.builder.end_spills();
    }

    fn flags_live_at(&mut self, pc: u64) -> bool {
        // Code that the tool leaves out overwrites nothing.
        self.instrumenter.tool.leaves_out()
            || self.ahead.live_flags_at(pc) & RegisterUse::STATUS != 0
    }

    fn add_at_end(&mut self, flags_live: bool) {
        let amounts = std::mem::take(&mut self.tally.at_end);
        self.add(&amounts, flags_live, Scratch::beside(None));
    }

    /// Emits what is to be done at a place, but for counting.
    fn act(&mut self, item: &Item, actions: &[Action], flags_live: bool) {
        let is_call = |action: &Action| matches!(action, Action::Call(_) | Action::CallIf { .. });
        for alike in actions.chunk_by(|left, right| is_call(left) && is_call(right)) {
            let calls = !matches!(
                alike[0],
                Action::Count { .. } | Action::Replace(_) | Action::Append { .. }
            );
            if self.is_aside && calls {
                // Nobody would know of them if the program were made to go on elsewhere.
                let pending = std::mem::replace(&mut self.pending, [0; MOST_BUFFERS]);
                self.advance(pending);
            }
            match &alike[0] {
                Action::Count { .. } | Action::Replace(_) => {}
                Action::Call(_) | Action::CallIf { .. } => self.call_now(item, alike, flags_live),
                Action::Sampled { sampler, call } => {
                    rarely::sampled(self, (item, flags_live), *sampler, call);
                }
                Action::Watched {
                    shadow,
                    expected,
                    operand,
                    call,
                } => rarely::watched(
                    self,
                    (item, flags_live),
                    (*shadow, *expected),
                    operand,
                    call,
                ),
                Action::Append {
                    buffer,
                    size,
                    fields,
                } => appends::emit(self, item, *buffer, *size, fields),
            }
        }
    }

    /// Emits calls. What is called finds all program state in place.
    fn call_now(&mut self, item: &Item, calls: &[Action], flags_live: bool) {
        self.restore();
        calls::emit(self, item, calls, flags_live);
        self.spill();
    }

    /// Notes what an instruction appends on the path that stays inside.
    fn append_inside(&mut self, index: usize, actions: &[Action]) {
        let entries = appends::sizes(actions);
        let entries = entries.map(|(buffer, size)| (index as u32, buffer, size));
        self.appended.extend(entries);
    }

    /// Leaves by a jump that can be linked.
    fn leave_here(&mut self, target: u64) {
        self.advance(self.pending);
        match self.binding {
            Some(binding) => self.builder.exit_bound(target, binding),
            None => self.builder.exit_jump(None, ExitKind::Direct, target),
        }
    }

    /// Leaves the cache with all program state in place.
    fn leave(&mut self, kind: ExitKind, target: u64, detail: u32) {
        self.advance(self.pending);
        if let Some(binding) = self.binding {
            binding.restore(&mut self.builder.code);
        }
        let id = self.cache.exit_id(self.builder.new_fragment.exits.len());
        self.builder.code.leave(id, self.cache.gates.exit);
        let mut exit = Exit::new(kind, target, 0);
        exit.detail = detail;
        self.builder.new_fragment.exits.push(exit);
    }

    fn add(&mut self, amounts: &Amounts, flags_live: bool, scratch: Scratch) {
        counts::add(&mut self.builder.code, amounts, flags_live, scratch);
    }
}
