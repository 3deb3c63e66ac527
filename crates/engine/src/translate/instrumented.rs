//! Translation with what a tool inserts.
//!
//! A fragment is one superblock (see [`superblock`](super::superblock)). All program state is
//! in place between its instructions: what is inserted gives back what it borrows. Only where
//! the tool has buffers, registers that the superblock does not touch are on loan throughout
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
use crate::cache::{Cache, CacheFull, Exit};
use crate::decode::Kind;
use crate::exit::ExitKind;
use crate::instrument::{
    Action, Amounts, FragmentCounts, Insertions, Instrumenter, MOST_BUFFERS, Trace,
};
use crate::operands::RegisterUse;
use crate::warmth::Warmth;

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

/// Translates the superblock at `pc` and makes it part of the cache. With `arrival` an
/// indirect branch has just come there.
///
/// # Errors
/// If the cache is full.
pub(crate) fn translate(
    instrumenter: &Instrumenter,
    cache: &mut Cache,
    source: &Source,
    pc: u64,
    arrival: bool,
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
    let warmth = warmth_for(instrumenter, &items);
    let start = builder.code.here();
    let mut warm = 0;
    if let Some(warmth) = warmth {
        warmth.borrow(&mut builder.code);
        builder.lend(warmth);
        warm = builder.code.here() as u32;
        builder.draft.prologue = u32::from(builder.offset());
        builder.draft.warmth = warmth;
    } else if arrival {
        let loan = builder.target_loan();
        let landing = builder.landing();
        builder.end_loan(loan);
        builder.draft.prologue = u32::from(builder.offset());
        builder.draft.landings.push((pc, landing as u32));
    }
    let entry = match warmth {
        Some(_) => start as u32,
        None => builder.code.here() as u32,
    };
    builder.draft.entries.push((pc, entry, warm));
    if !items.is_empty() {
        let trace = Trace::new(&items, inserted);
        crate::instrument::translate(instrumenter, &trace);
        inserted = trace.into_inserted();
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
        warmth,
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
    let mut draft = builder.draft;
    draft.turns = turns(&items);
    draft.trace = instrumenter.add_fragment(FragmentCounts {
        due: tally.due,
        added: tally.added,
        appended,
        repetitions,
        warmth,
    });
    cache.commit(&builder.code, draft);
    instrumenter.keep_room(items, inserted);
    Ok(())
}

/// The registers that the instructions' code has on loan, if it has any.
fn warmth_for(instrumenter: &Instrumenter, items: &[Item]) -> Option<Warmth> {
    let count = instrumenter.borrowed_registers();
    if count == 0 {
        return None;
    }
    let uses = items
        .iter()
        .map(|item| item.uses().read | item.uses().written);
    let touched = uses.fold(0, |mask, used| mask | used);
    let warmth = Warmth::for_code(touched, count);
    Some(warmth.expect("one instruction leaves enough registers alone"))
}

struct Translation<'a> {
    instrumenter: &'a Instrumenter,
    cache: &'a Cache,
    ahead: Lookahead<'a>,
    builder: Builder,
    tally: Tally,
    leaving: Vec<Leaving>,
    /// The registers on loan.
    warmth: Option<Warmth>,
    /// What the path has appended to buffers so far.
    pending: Pending,
    /// What instructions append on the path that stays inside.
    appended: Vec<(u32, crate::instrument::BufferId, u16)>,
    /// Where repeated string instructions are.
    repetitions: Vec<u32>,
    /// Whether the last instruction leaves with other registers on loan.
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
            if !amounts.is_empty() && (self.warmth.is_some() || item.left_out || !is_return) {
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
                .draft
                .boundaries
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
        if let (true, Some(warmth)) = (self.exchanged, self.warmth) {
            // What follows belongs to places before the exchange.
            self.builder.end_loans();
            self.lend(warmth);
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
        self.builder.end_loans();
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
        self.give_back();
        calls::emit(self, item, calls, flags_live);
        self.borrow();
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
        match self.warmth {
            Some(warmth) => self.builder.exit_warm(target, warmth),
            None => self.builder.exit_jump(None, ExitKind::Direct, target),
        }
    }

    /// Leaves the cache with all program state in place.
    fn leave(&mut self, kind: ExitKind, target: u64, detail: u32) {
        self.advance(self.pending);
        if let Some(warmth) = self.warmth {
            warmth.give_back(&mut self.builder.code);
        }
        let id = self.cache.exit_id(self.builder.draft.exits.len());
        self.builder.code.leave(id, self.cache.gates.exit);
        let mut exit = Exit::new(kind, target, 0);
        exit.detail = detail;
        self.builder.draft.exits.push(exit);
    }

    fn add(&mut self, amounts: &Amounts, flags_live: bool, scratch: Scratch) {
        counts::add(&mut self.builder.code, amounts, flags_live, scratch);
    }
}
