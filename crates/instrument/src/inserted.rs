//! What a tool has inserted.
//!
//! What is called finds all program state in place. What else is inserted borrows what it needs
//! ([`Borrowed`](unspool_engine::translate::insertion::borrowed::Borrowed)). Only where the tool has
//! buffers, registers that the superblock does not touch are bound throughout ([`appends`]).
//!
//! What is counted along a path is added up while translating and added to the counters once
//! ([`counts`]), where the flags are dead if there is such a place.

mod activations;
mod appends;
mod at_call;
mod calls;
mod conditional_appends;
mod counts;
mod element_appends;
mod ends;
mod full_buffers;
mod hooks;
mod memory_values;
mod observed;
mod parts;
mod rare_call;
mod rarely;
mod shadows;
mod watched;
mod wide_vectors;

use std::ops::{Deref, DerefMut, Range};

use self::at_call::{AtCall, Pending};
use self::calls::Followed;
use self::conditional_appends::RareAppend;
use self::counts::{Tally, inside_is_taken};
pub(crate) use self::parts::Parts;
use self::rare_call::RareCall;
use crate::action::VectorElements;
use crate::fragments::FragmentCounts;
use crate::instrumentation::ask;
use crate::slots::offset as tool_offset;
use crate::switches;
use crate::{Action, Amounts, BufferId, Inserted, MOST_BUFFERS, Superblock, Switch, Version};
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_code_cache::emit::gpr;
use unspool_engine::translate::insertion::{Choice, Inserter, PathEnd};
use unspool_engine::translate::superblock::{Item, Limits, SuperblockEnd, runs_on};
use unspool_engine::translate::walk::Walk;
use unspool_instructions::decode::Repeat;
use unspool_instructions::operands::{MemoryOperand, Shape};

/// What is to be done on a way out of the superblock by a conditional branch.
struct Aside {
    /// The number of the branch.
    branch: usize,
    /// What is still to be added to counters.
    due: Amounts,
    /// What has been appended to buffers.
    pending: Pending,
}

/// What a tool has inserted into one superblock.
pub(crate) struct Insertion {
    inserted: Inserted,
    /// Which of two versions of the code it is, if it is one, and by which switch.
    version: Option<(Switch, Version)>,
    asides: Vec<Aside>,
    progress: Progress,
}

/// How far its translation is.
struct Progress {
    parts: Parts,
    tally: Tally,
    /// What the path has appended to buffers so far.
    pending: Pending,
    /// What it had appended before the instruction.
    before: Pending,
    /// What it has appended where the call is made that is being emitted away from the path.
    deferred: Option<AtCall>,
    /// What instructions append on the path that stays inside.
    appended: Vec<(u32, BufferId, u16)>,
    /// Where repeated string instructions are.
    repetitions: Vec<CacheAddress>,
    /// The address at which the program goes on from the place that is being translated.
    at: u64,
    /// Whether that place is behind the instruction.
    completed: bool,
    /// Whether that place is on a way out of the superblock.
    is_aside: bool,
    /// Calls that are made only if others say so.
    followed: Vec<Followed>,
    /// Calls that are made only if a test says so.
    rare_calls: Vec<RareCall>,
    /// Entries that are appended only if a test says so.
    rare_appends: Vec<RareAppend>,
    /// The fields of jumps that are taken if something is pending behind a call, and where the
    /// thread goes on then.
    interrupted: Vec<(CacheAddress, CacheAddress)>,
    /// Where code of the tool has been put.
    tool_code: Vec<Range<CacheAddress>>,
    /// Where code looks at memory that may be gone, and goes on.
    looks: Vec<Range<CacheAddress>>,
    /// How often it is looked whether a buffer is full.
    looks_at_ends: usize,
    /// Whether flags are live where the superblock begins.
    flags_live_at_start: bool,
    /// Which general registers the superblock's instructions use, if calls may share others.
    touched: u16,
}

/// What is inserted, with the fragment to which its code is added.
struct Translation<'t, 'w> {
    walk: &'t mut Walk<'w>,
    own: &'t mut Progress,
}

impl Deref for Translation<'_, '_> {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        self.own
    }
}

impl DerefMut for Translation<'_, '_> {
    fn deref_mut(&mut self) -> &mut Progress {
        self.own
    }
}

impl Insertion {
    /// Nothing is inserted yet.
    pub(crate) fn new(parts: Parts) -> Insertion {
        Insertion {
            inserted: parts.fragments.room(),
            version: None,
            asides: Vec::new(),
            progress: Progress::new(parts),
        }
    }
}

impl Progress {
    fn new(parts: Parts) -> Progress {
        Progress {
            parts,
            tally: Tally::default(),
            pending: [0; MOST_BUFFERS],
            before: [0; MOST_BUFFERS],
            deferred: None,
            appended: Vec::new(),
            repetitions: Vec::new(),
            at: 0,
            completed: false,
            is_aside: false,
            followed: Vec::new(),
            rare_calls: Vec::new(),
            rare_appends: Vec::new(),
            interrupted: Vec::new(),
            tool_code: Vec::new(),
            looks: Vec::new(),
            looks_at_ends: 0,
            flags_live_at_start: true,
            touched: 0,
        }
    }

    fn with<'t, 'w>(&'t mut self, walk: &'t mut Walk<'w>) -> Translation<'t, 'w> {
        Translation { walk, own: self }
    }

    /// Notes what an instruction appends on the path that stays inside.
    fn append_inside(&mut self, number: usize, actions: &[Action]) {
        let entries = appends::sizes(actions);
        let entries = entries.map(|(buffer, size)| (number as u32, buffer, size));
        self.appended.extend(entries);
    }
}

impl Inserter for Insertion {
    fn limits(&self) -> &dyn Limits {
        &self.progress.parts
    }

    fn decide(
        &mut self,
        walk: &mut Walk,
        items: &mut Vec<Item>,
        end: SuperblockEnd,
    ) -> SuperblockEnd {
        let parts = self.progress.parts;
        if !items.is_empty() {
            let room = std::mem::take(&mut self.inserted);
            let superblock = Superblock::new(items, parts.images, room, walk.version());
            ask(parts.tool, &superblock);
            (self.inserted, self.version) = superblock.into_parts();
        }
        self.inserted.find_places(items.len());
        ends::move_operands(items, &self.inserted, walk.is_alone());
        let end = ends::replace(items, &mut self.inserted, end);
        let end = ends::fit(&parts, walk.is_alone(), items, &self.inserted, end);
        self.progress.tally = Tally::new(
            items,
            &self.inserted,
            matches!(end, SuperblockEnd::Transfer),
        );
        self.progress.flags_live_at_start = items.first().is_none_or(|first| first.flags_live);
        if !walk.is_alone() {
            self.tell_others(walk, items);
        }
        // What one call borrows no other can use, so there is nothing to keep in place for it, and
        // finding out what instructions use takes longer than translating them.
        if self.inserted.has_several_calls() {
            let uses = items.iter().map(Item::uses);
            let touched = uses.fold(0, |mask, uses| mask | uses.read | uses.written);
            self.progress.touched = touched;
        }
        end
    }

    fn reached(&mut self, walk: &mut Walk, item: &Item) {
        let mut translation = self.progress.with(walk);
        (translation.own.at, translation.own.completed) = (item.pc, false);
        hooks::emit(&mut translation, item);
        translation.act(item, self.inserted.reached(), item.flags_live);
    }

    fn choice(&self) -> Option<Choice> {
        let (switch, version) = self.version?;
        let switch = switch.slot();
        Some(Choice { version, switch })
    }

    fn before(&mut self, walk: &mut Walk, item: &Item) {
        let number = walk.number;
        let insertions = self.inserted.others_around(number);
        let mut translation = self.progress.with(walk);
        (translation.own.at, translation.own.completed) = (item.pc, false);
        translation.own.before = translation.own.pending;
        translation.count(item);
        translation.own.append_inside(number, insertions.before);
        translation.act(item, insertions.before, item.flags_live);
        if item.left_out {
            return;
        }
        watched::emit(&mut translation, item);
        memory_values::keep_addresses(&mut translation, item, insertions.after);
        if !runs_on(item.layout.kind) {
            translation.own.append_inside(number, insertions.taken);
            translation.act(item, insertions.taken, item.flags_live);
        }
        let is_repeated = |operand: &MemoryOperand| matches!(operand.shape, Shape::Repeat { .. });
        if item.layout.repeat != Repeat::None && item.operands().iter().any(is_repeated) {
            self.progress.repetitions.push(CacheAddress::NOWHERE);
        }
    }

    fn copied(&mut self, walk: &mut Walk, item: &Item) {
        // Only its place was not known before.
        let length = u32::from(item.layout.length);
        let place = walk.builder.code.here().minus(length);
        if let Some(unknown) = self
            .progress
            .repetitions
            .last_mut()
            .filter(|place| !place.is_somewhere())
        {
            *unknown = place;
        }
    }

    fn after(&mut self, walk: &mut Walk, item: &Item, flags_live: bool) {
        if !item.left_out && !runs_on(item.layout.kind) {
            return;
        }
        let number = walk.number;
        let insertions = self.inserted.others_around(number);
        let inside = insertions.inside(inside_is_taken(item));
        let mut translation = self.progress.with(walk);
        (translation.own.at, translation.own.completed) = (item.goes_on(), true);
        translation.own.append_inside(number, inside);
        translation.act(item, inside, flags_live);
    }

    fn side_exit(&mut self, walk: &mut Walk, item: &Item) -> bool {
        let branch = walk.number;
        let insertions = self.inserted.around(branch);
        let due = self.progress.tally.aside(branch, item, &insertions);
        let outside = insertions.inside(!inside_is_taken(item));
        let pending = self.progress.pending;
        let something = !due.is_empty() || !outside.is_empty() || pending != [0; MOST_BUFFERS];
        if something {
            self.asides.push(Aside {
                branch,
                due,
                pending,
            });
        }
        something
    }

    fn aside(&mut self, walk: &mut Walk, item: &Item, target: u64) {
        let branch = walk.number;
        let place = self.asides.iter().position(|aside| aside.branch == branch);
        let Some(place) = place else {
            // It is others that have something to do there.
            return;
        };
        let aside = self.asides.swap_remove(place);
        let insertions = self.inserted.others_around(branch);
        let outside = insertions.inside(!inside_is_taken(item));
        let nothing = aside.due.is_empty() && outside.is_empty();
        let live = !nothing && walk.flags_live_at(target);
        let mut translation = self.progress.with(walk);
        let own = &mut *translation.own;
        (own.pending, own.at, own.is_aside) = (aside.pending, target, true);
        translation.add(&aside.due, live);
        translation.act(item, outside, live);
        let pending = translation.own.pending;
        translation.advance(pending);
        full_buffers::look(&mut translation, pending, Some(target));
    }

    fn at_end(&mut self, walk: &mut Walk, items: &[Item], end: &SuperblockEnd) {
        let flags_live = match *end {
            SuperblockEnd::Transfer => return,
            SuperblockEnd::Continue(pc) => {
                !self.progress.tally.at_end.is_empty() && walk.flags_live_at(pc)
            }
            SuperblockEnd::Unfetchable(_) | SuperblockEnd::Annotation(_) => true,
        };
        let mut translation = self.progress.with(walk);
        let amounts = std::mem::take(&mut translation.own.tally.at_end);
        translation.add(&amounts, flags_live);
        if let (SuperblockEnd::Continue(_), Some(last)) = (end, items.last()) {
            hooks::follow_stack(&mut translation, last);
        }
    }

    fn close(&mut self, walk: &mut Walk, _executed: usize, end: PathEnd) -> bool {
        let pending = self.progress.pending;
        let mut translation = self.progress.with(walk);
        let loses_scratch = translation.advance_needs_scratch();
        match end {
            PathEnd::Exit(target) => {
                translation.advance(pending);
                full_buffers::look(&mut translation, pending, target);
            }
            PathEnd::Transfer => translation.advance(pending),
            PathEnd::Return if loses_scratch => {
                // If the return faults, then here.
                if let Some(binding) = translation.walk.binding {
                    let code = &mut translation.walk.builder.code;
                    code.load(binding.scratch(), gpr::RSP, 0);
                }
                translation.advance(pending);
            }
            PathEnd::ReturnTaken if !loses_scratch => translation.advance(pending),
            PathEnd::Return | PathEnd::ReturnTaken => {}
        }
        loses_scratch
    }

    fn before_call(&mut self, walk: &mut Walk) {
        hooks::note_call(&mut self.progress.with(walk));
    }

    fn system_call(&mut self, walk: &mut Walk, item: &Item) {
        let version = self.version.map(|(_, version)| version);
        let places = self.progress.parts.system_calls;
        places.set((item.pc, version), self.inserted.over(walk.number));
        if let Some(version) = version {
            let slot = tool_offset::CALLING_VERSION;
            let code = &mut walk.builder.code;
            code.store_slot_imm32(slot, switches::number(version));
        }
    }

    fn finish(&mut self, walk: &mut Walk, items: &[Item]) {
        let mut translation = self.progress.with(walk);
        rare_call::finish(&mut translation, items);
        conditional_appends::finish(&mut translation, items);
        calls::finish(&mut translation, items);
    }

    fn keep(&mut self, binding: Option<RegisterBinding>, fragment: FragmentId) {
        let Progress {
            parts,
            tally,
            appended,
            repetitions,
            tool_code,
            looks,
            ..
        } = &mut self.progress;
        parts.fragments.add_tool_code(tool_code);
        parts.fragments.add_looks(looks);
        let kept = FragmentCounts {
            due: std::mem::take(&mut tally.due),
            added: std::mem::take(&mut tally.added),
            appended: std::mem::take(appended).into_boxed_slice(),
            repetitions: std::mem::take(repetitions).into_boxed_slice(),
            binding,
        };
        parts.fragments.counts.keep(fragment, kept);
        parts
            .fragments
            .keep_room(std::mem::take(&mut self.inserted));
    }
}

impl Insertion {
    /// Says where functions are called, so that others rely on nothing across them.
    fn tell_others(&self, walk: &mut Walk, items: &[Item]) {
        let calls = |actions: &[Action]| actions.iter().any(Action::calls);
        for number in 0..items.len() {
            let around = self.inserted.around(number);
            if calls(around.before) || calls(around.taken) {
                walk.disturb(number);
            }
            if calls(around.after) || calls(around.taken) {
                walk.disturb(number + 1);
            }
        }
        if !self.inserted.reached().is_empty() {
            walk.disturb(0);
        }
        let functions = self.progress.parts.functions;
        if items
            .first()
            .is_some_and(|item| functions.hook_at(item.pc).is_some())
        {
            walk.disturb(0);
        }
    }
}

impl Translation<'_, '_> {
    /// Emits what is to be added to counters before the instruction.
    fn count(&mut self, item: &Item) {
        let amounts = self.own.tally.before(self.walk.number);
        if !amounts.is_empty() {
            let additions = counts::additions(amounts);
            self.walk.add(&additions, item.flags_live, Some(item));
        }
    }

    /// Emits what is to be done at a place, but for counting.
    fn act(&mut self, item: &Item, actions: &[Action], flags_live: bool) {
        let is_call = |action: &Action| matches!(action, Action::Call(_) | Action::CallIf { .. });
        for alike in actions.chunk_by(|left, right| is_call(left) && is_call(right)) {
            if self.is_aside && alike[0].calls() {
                // Nobody would know of them if the program were made to go on elsewhere.
                let pending = std::mem::replace(&mut self.pending, [0; MOST_BUFFERS]);
                self.advance(pending);
            }
            if !is_call(&alike[0]) {
                observed::prepare(self, item, &alike[0]);
            }
            match &alike[0] {
                Action::Count { .. } | Action::Replace(_) => {}
                Action::Call(_) | Action::CallIf { .. } => self.call(item, alike, flags_live),
                Action::Sampled { sampler, call } => {
                    rarely::sampled(self, (item, flags_live), *sampler, call);
                }
                Action::Reaches {
                    counter,
                    word,
                    call,
                } => rarely::reaches(self, (item, flags_live), (*counter, *word), call),
                Action::Shadow { check, otherwise } => {
                    shadows::emit(self, (item, flags_live), check, otherwise.as_deref());
                }
                Action::Append {
                    buffer,
                    size,
                    fields,
                } => appends::emit(self, item, *buffer, *size, fields),
                Action::AppendIf { test, entry, words } => {
                    conditional_appends::emit(self, (item, flags_live), test, (entry, words));
                }
                Action::AppendEach(each) => {
                    if let Some(elements) = VectorElements::of(each) {
                        match self.completed {
                            false => element_appends::keep(self, item, &elements),
                            true => {
                                element_appends::emit(self, (item, flags_live), each, &elements);
                            }
                        }
                        continue;
                    }
                    let pending = self.at_call().of(each.buffer);
                    let call = match self.completed {
                        false => each.call_before(pending),
                        true => each.call_behind(pending),
                    };
                    self.call_now(item, &[Action::Call(call)], flags_live);
                }
            }
        }
    }

    /// Emits calls.
    fn call(&mut self, item: &Item, calls: &[Action], flags_live: bool) {
        let mut left = calls;
        while let Some((first, others)) = left.split_first() {
            observed::prepare(self, item, first);
            let is_called = |action: &&Action| !calls::inlined::is_possible(self, item, action);
            let follows = |action: &&Action| is_called(action) && !observed::are_wanted(action);
            if is_called(&first) {
                let count = 1 + others.iter().take_while(follows).count();
                self.call_now(item, &left[..count], flags_live);
                left = &left[count..];
            } else {
                calls::inlined::emit(self, item, first, flags_live);
                left = others;
            }
        }
    }

    /// Emits calls. What is called finds all program state in place.
    fn call_now(&mut self, item: &Item, calls: &[Action], flags_live: bool) {
        self.restore();
        calls::emit(self, item, calls, flags_live);
        self.spill();
    }

    /// The same where no instruction follows.
    fn add(&mut self, amounts: &Amounts, flags_live: bool) {
        if !amounts.is_empty() {
            let additions = counts::additions(amounts);
            self.walk.add(&additions, flags_live, None);
        }
    }

    fn restore(&mut self) {
        self.walk.restore();
    }

    fn spill(&mut self) {
        self.walk.spill();
    }
}
