//! What threads execute for OpenMP, and which memory is theirs alone: a thread executes one part behind
//! another, in the same stack and with the same thread-local variables, though nothing orders the
//! parts.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use unspool_events::ThreadId;

use crate::call_paths::ContextId;

/// What a part of a program is that runs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// What one thread of a team executes of a parallel region.
    Region,
    /// A task.
    Task,
    /// A section.
    Section,
}

/// A part that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    /// The thread that executes it.
    pub(super) thread: ThreadId,
    /// What has made it: a part, or a thread outside of all regions.
    pub(super) maker: ThreadId,
    /// The calls that led to where it was made.
    pub(super) made_at: ContextId,
    /// Whether it has asked which thread executes it.
    asks: bool,
    /// Where its thread's stack was when it began.
    stack_pointer: u64,
    /// When it ended, if it has.
    ended: Option<u64>,
}

/// All parts, and the memory of threads.
#[derive(Debug, Default)]
pub(super) struct Parts {
    list: Vec<Option<Part>>,
    threads: FxHashMap<ThreadId, OwnMemory>,
    /// Memory that was mapped for stacks: where it begins and ends.
    stacks: BTreeMap<u64, u64>,
    step: u64,
}

/// The memory of a thread.
#[derive(Debug, Default)]
struct OwnMemory {
    /// Around the thread pointer: thread-local variables of what was loaded when it was set, and what
    /// the C library knows of the thread.
    around_pointer: Range<u64>,
    stack: Range<u64>,
    /// Where the first call that is known has left its return address.
    top: u64,
    is_of_runtime: bool,
    /// The parts that the thread executes, the outermost first, and when each began.
    running: Vec<(ThreadId, u64)>,
    /// Where the stack pointer was at a time at which all below it was free: the last time for what is
    /// below each, the highest first.
    freed: Vec<(u64, u64)>,
}

/// Parts have numbers that no thread has.
const FIRST: u32 = 1 << 31;

/// What thread-local variables may take below the thread pointer where it is not known.
const VARIABLES: u64 = 64 << 10;
/// What a C library knows of a thread, from its pointer on.
const ABOVE_POINTER: u64 = 4 << 10;

/// Where a call leaves it is the callee's.
const RETURN_ADDRESS: u64 = 8;

/// What the first thread's stack may grow to: the kernel maps nothing else there.
const FIRST_STACK: u64 = 64 << 20;
/// A stack of which it was not seen how it was mapped.
const OTHER_STACK: u64 = 1 << 20;

impl Parts {
    /// The number of a part that is yet to begin.
    pub(super) fn number(&mut self) -> ThreadId {
        self.list.push(None);
        ThreadId(FIRST + (self.list.len() - 1) as u32)
    }

    /// Which part it is, if it is one and no thread.
    pub(super) fn get(&self, id: ThreadId) -> Option<&Part> {
        self.list.get(id.0.checked_sub(FIRST)? as usize)?.as_ref()
    }

    fn get_mut(&mut self, id: ThreadId) -> Option<&mut Part> {
        self.list
            .get_mut(id.0.checked_sub(FIRST)? as usize)?
            .as_mut()
    }

    /// The thread that executes a part, or the thread itself.
    pub(super) fn thread_of(&self, id: ThreadId) -> ThreadId {
        self.get(id).map_or(id, |part| part.thread)
    }

    /// A part begins in a thread whose stack is so.
    pub(super) fn begin(
        &mut self,
        id: ThreadId,
        kind: PartKind,
        (thread, stack_pointer): (ThreadId, u64),
        (maker, made_at): (ThreadId, ContextId),
    ) {
        self.step += 1;
        let part = Part {
            kind,
            thread,
            maker,
            made_at,
            asks: false,
            stack_pointer,
            ended: None,
        };
        if let Some(place) = self.list.get_mut((id.0 - FIRST) as usize) {
            *place = Some(part);
        }
        if kind != PartKind::Section {
            let memory = self.threads.entry(thread).or_default();
            memory.frees_below(stack_pointer.saturating_add(RETURN_ADDRESS), self.step);
            memory.running.push((id, self.step));
        }
    }

    /// A part has ended.
    pub(super) fn end(&mut self, id: ThreadId) {
        self.step += 1;
        let step = self.step;
        let Some(part) = self.get_mut(id) else {
            return;
        };
        part.ended = Some(step);
        let (kind, thread, stack_pointer) = (part.kind, part.thread, part.stack_pointer);
        if kind != PartKind::Section
            && let Some(memory) = self.threads.get_mut(&thread)
        {
            memory.running.retain(|(running, _)| *running != id);
            memory.frees_below(stack_pointer.saturating_add(RETURN_ADDRESS), step);
        }
    }

    /// It asks which thread executes it.
    pub(super) fn asks(&mut self, id: ThreadId) {
        if let Some(part) = self.get_mut(id) {
            part.asks = true;
        }
    }

    /// A thread's pointer is this, with at most so many bytes of variables below it. The stack of a
    /// thread may end right below them, and so may what else is mapped.
    pub(super) fn has_pointer(&mut self, thread: ThreadId, pointer: u64, variables: Option<u64>) {
        let below = variables.unwrap_or(VARIABLES);
        let around = pointer.saturating_sub(below)..pointer.saturating_add(ABOVE_POINTER);
        self.threads.entry(thread).or_default().around_pointer = around;
    }

    /// Memory was mapped for a stack.
    pub(super) fn stack_mapped(&mut self, address: u64, size: u64) {
        self.stacks.insert(address, address.saturating_add(size));
    }

    /// A thread makes a call, with its return address here.
    pub(super) fn calls(&mut self, thread: ThreadId, stack_pointer: u64, is_of_runtime: bool) {
        let memory = self.threads.entry(thread).or_default();
        memory.is_of_runtime = is_of_runtime;
        memory.top = memory.top.max(stack_pointer);
        if memory.stack.is_empty() {
            let stack = self.stack_at(thread, stack_pointer);
            self.takes_stack(thread, stack);
        }
    }

    /// The stack of a thread that has not called anything before.
    fn stack_at(&self, thread: ThreadId, stack_pointer: u64) -> Range<u64> {
        let mapped = self.stacks.range(..=stack_pointer).next_back();
        if let Some((&start, &end)) = mapped
            && stack_pointer < end
        {
            return start..end;
        }
        let size = match thread {
            ThreadId(0) => FIRST_STACK,
            _ => OTHER_STACK,
        };
        stack_pointer.saturating_sub(size)..stack_pointer.saturating_add(size)
    }

    /// Nothing is in use yet of a thread's stack. It may have been that of a thread that has ended.
    fn takes_stack(&mut self, thread: ThreadId, stack: Range<u64>) {
        for other in self.threads.values_mut() {
            if other.stack == stack {
                other.stack = 0..0;
            }
        }
        self.step += 1;
        let memory = self.threads.entry(thread).or_default();
        memory.frees_below(stack.end, self.step);
        memory.stack = stack;
    }

    /// Whether two accesses, of which nothing orders one behind the other, cannot be a race because of
    /// whose memory it is.
    pub(super) fn keep_apart(&self, first: ThreadId, second: ThreadId, address: u64) -> bool {
        let parts = [first, second].map(|id| self.get(id));
        if parts.iter().all(Option::is_none) {
            return false;
        }
        self.are_apart_in_one_thread(first, second, address) || self.was_freed_since(first, address)
    }

    fn are_apart_in_one_thread(&self, first: ThreadId, second: ThreadId, address: u64) -> bool {
        let thread = self.thread_of(first);
        if thread != self.thread_of(second) {
            return false;
        }
        let memory = self.threads.get(&thread);
        if memory.is_some_and(|memory| memory.is_local_to_thread(address)) {
            return true;
        }
        // What the thread has for itself is found by its number.
        if self.has_asked(first) && self.has_asked(second) {
            return true;
        }
        let maker_of_section = |id| {
            let part = self.get(id)?;
            (part.kind == PartKind::Section).then_some(part.maker)
        };
        // Sections of one construct share the private variables of the thread.
        let maker = maker_of_section(first);
        maker.is_some()
            && maker == maker_of_section(second)
            && memory.is_some_and(|memory| memory.stack.contains(&address))
    }

    fn has_asked(&self, id: ThreadId) -> bool {
        self.get(id).is_some_and(|part| {
            let of_section = part.kind == PartKind::Section;
            part.asks || of_section && self.has_asked(part.maker)
        })
    }

    /// Whether an address is in a stack, and has become that of another variable since this part or
    /// thread has accessed it.
    fn was_freed_since(&self, id: ThreadId, address: u64) -> bool {
        let mut memories = self.threads.values();
        let memory = memories.find(|memory| memory.stack.contains(&address));
        let freed = memory.and_then(|memory| memory.freed_at(address));
        let ran_until = self.ran_until(id);
        ran_until.is_some_and(|ran_until| freed.is_some_and(|freed| ran_until <= freed))
    }

    /// Until when a part or thread ran that does not run now.
    fn ran_until(&self, id: ThreadId) -> Option<u64> {
        let part = self.get(id);
        if let Some(ended) = part.and_then(|part| part.ended) {
            return Some(ended);
        }
        let id = match part {
            Some(part) if part.kind == PartKind::Section => part.maker,
            _ => id,
        };
        // It waits for what its thread executes on top of it.
        let running = &self.threads.get(&self.thread_of(id))?.running;
        let above = match running.iter().position(|(running, _)| *running == id) {
            Some(place) => place + 1,
            None => 0,
        };
        running.get(above).map(|(_, began)| *began)
    }
}

impl OwnMemory {
    /// Nothing is in use any more below an address of the stack.
    fn frees_below(&mut self, address: u64, step: u64) {
        while self.freed.pop_if(|(other, _)| *other <= address).is_some() {}
        self.freed.push((address, step));
    }

    /// When an address was last free.
    fn freed_at(&self, address: u64) -> Option<u64> {
        let above = self.freed.partition_point(|(other, _)| *other > address);
        Some(self.freed[above.checked_sub(1)?].1)
    }

    fn is_local_to_thread(&self, address: u64) -> bool {
        // Frames are below who calls, however little is known of the variables.
        let is_in_frame = (self.stack.start..self.top).contains(&address);
        let is_above_stack = self.is_of_runtime && (self.top..self.stack.end).contains(&address);
        !is_in_frame && (self.around_pointer.contains(&address) || is_above_stack)
    }
}
