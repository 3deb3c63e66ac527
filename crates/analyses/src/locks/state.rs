//! Who holds what, and who waits.

use unspool_events::{FunctionId, ThreadId};

use super::operation::Operation;
use super::order::{LockId, Use};
use super::report::LockUse;
use crate::call_paths::ContextId;
use crate::clock::Clock;

/// A lock.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) id: LockId,
    /// Who has it: one thread, or those that share it.
    pub(super) holders: Vec<ThreadId>,
    pub(super) is_shared: bool,
    /// Whether a thread that ends may leave it to others.
    pub(super) is_robust: bool,
    /// Who took it last, and where.
    pub(super) last: Option<(ThreadId, LockUse)>,
    /// Who has destroyed it, and where.
    pub(super) destroyed: Option<(ThreadId, ContextId)>,
}

/// A lock that a thread has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) lock: LockUse,
    /// How often it has taken it.
    times: u32,
}

/// What a thread waits for as long as it takes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Waits {
    #[default]
    Nothing,
    For(Use),
    ForEnd(ThreadId, ContextId),
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) function: FunctionId,
    pub(super) stack_pointer: u64,
    pub(super) operation: Operation,
    pub(super) arguments: [u64; 2],
    pub(super) context: ContextId,
}

/// A thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) clock: Clock,
    pub(super) held: Vec<Held>,
    pub(super) waits: Waits,
    pub(super) calls: Vec<Call>,
    /// How many calls there were where signal handlers were called: those may stand on another stack.
    handlers: Vec<usize>,
}

impl Lock {
    pub(super) fn new(id: LockId) -> Lock {
        Lock {
            id,
            holders: Vec::new(),
            is_shared: false,
            is_robust: false,
            last: None,
            destroyed: None,
        }
    }
}

impl Thread {
    pub(super) fn has(&self, address: u64) -> bool {
        self.held.iter().any(|it| it.lock.address == address)
    }

    /// It has taken a lock, perhaps once more.
    pub(super) fn holds(&mut self, lock: LockUse) {
        let mut held = self.held.iter_mut();
        match held.find(|it| it.lock.address == lock.address) {
            Some(known) => known.times += 1,
            None => self.held.push(Held { lock, times: 1 }),
        }
    }

    /// It lets a lock go. Returns whether it has it no more.
    pub(super) fn let_go(&mut self, address: u64) -> bool {
        let mut held = self.held.iter_mut();
        if let Some(known) = held.find(|it| it.lock.address == address) {
            known.times -= 1;
        }
        self.held.retain(|it| it.times > 0);
        !self.has(address)
    }

    pub(super) fn let_go_entirely(&mut self, address: u64) {
        self.held.retain(|it| it.lock.address != address);
    }

    pub(super) fn handler_called(&mut self) {
        self.handlers.push(self.calls.len());
    }

    pub(super) fn handler_returned(&mut self) {
        if let Some(before) = self.handlers.pop() {
            self.calls.truncate(before);
        }
    }

    /// Calls below this stack pointer were left by a jump out of them.
    pub(super) fn leave_frames_below(&mut self, stack_pointer: u64) {
        let kept = self.handlers.last().copied().unwrap_or(0);
        while self.calls.len() > kept
            && self
                .calls
                .last()
                .is_some_and(|it| it.stack_pointer < stack_pointer)
        {
            self.calls.pop();
            self.waits = Waits::Nothing;
        }
    }

    /// Whether a call is made by another function that is known here: of the same lock, or of a
    /// condition's mutex.
    pub(super) fn is_within_another(&self, call: &Call) -> bool {
        let kept = self.handlers.last().copied().unwrap_or(0);
        let outer = self.calls.get(kept..).and_then(|calls| calls.last());
        outer.is_some_and(|outer| {
            let is_condition = outer.operation == Operation::WaitForCondition;
            let object = call.arguments[0];
            outer.arguments[0] == object || is_condition && outer.arguments[1] == object
        })
    }

    /// A function returns: that call, if it was one.
    pub(super) fn returned(&mut self, function: FunctionId, stack_pointer: u64) -> Option<Call> {
        let found = self
            .calls
            .iter()
            .rposition(|it| it.function == function && it.stack_pointer == stack_pointer)?;
        let call = self.calls[found];
        self.calls.truncate(found);
        Some(call)
    }
}
