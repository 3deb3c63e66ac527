//! Through which calls has each thread come to where it is?
//!
//! A trace has no calls of its own, but it has the accesses that they make: a call leaves its return
//! address on the stack, a return takes it from there, and both are marked
//! ([`AccessFlags::RETURN_ADDRESS`]). From their addresses a thread's stack is followed as the
//! processor does, so that whatever leaves several frames at once (`longjmp`, exceptions, a program
//! that switches stacks) comes out right: a frame lasts until something happens above it.
//!
//! The calls that led somewhere are a [`ContextId`], the node of a tree that all threads share.

mod stacks;
mod tree;

use rustc_hash::FxHashMap;
use unspool_events::{
    Access, AccessFlags, AccessKind, Execution, Executions, PlainAccess, ThreadId,
};

use stacks::Stacks;
use tree::Tree;
pub use tree::{CallSite, ContextId};

/// The call paths of all threads.
#[derive(Debug)]
pub(crate) struct CallPaths {
    tree: Tree,
    threads: FxHashMap<ThreadId, Stacks>,
}

/// The call path of one thread, while its accesses are gone through.
#[derive(Debug)]
pub(crate) struct Follower<'a> {
    tree: &'a mut Tree,
    stacks: &'a mut Stacks,
}

impl CallPaths {
    /// Nothing is known yet. What is kept of paths takes no more than so many bytes: further ones
    /// are cut short.
    pub(crate) fn new(most_bytes: usize) -> CallPaths {
        CallPaths {
            tree: Tree::new(most_bytes),
            threads: FxHashMap::default(),
        }
    }

    /// To follow accesses of a thread.
    pub(crate) fn thread(&mut self, id: ThreadId) -> Follower<'_> {
        Follower {
            tree: &mut self.tree,
            stacks: self.threads.entry(id).or_default(),
        }
    }

    /// Follows accesses of a thread of which nothing else is wanted.
    pub(crate) fn follow(&mut self, id: ThreadId, batch: &[Access]) {
        let mut path = self.thread(id);
        for access in batch {
            path.access(access);
        }
        if let Some(last) = batch.last() {
            path.is_at(last.pc);
        }
    }

    /// The same of executions.
    pub(crate) fn follow_executions(&mut self, id: ThreadId, executions: &Executions<'_>) {
        let mut path = self.thread(id);
        for number in 0..executions.len() {
            let execution = executions.get(number);
            path.executes(&execution, execution.accesses());
            if let Some(last) = execution.accesses().last() {
                path.is_at(last.pc);
            }
        }
    }

    /// Where a thread is.
    pub(crate) fn context(&self, id: ThreadId) -> ContextId {
        let stacks = self.threads.get(&id);
        stacks.map_or(ContextId::NONE, Stacks::context)
    }

    /// The kernel calls a signal handler in a thread.
    pub(crate) fn handler_called(&mut self, id: ThreadId) {
        let stacks = self.threads.entry(id).or_default();
        stacks.interrupt(&mut self.tree);
    }

    /// A signal handler of a thread returns.
    pub(crate) fn handler_returned(&mut self, id: ThreadId) {
        if let Some(stacks) = self.threads.get_mut(&id) {
            stacks.resume();
        }
    }

    /// A thread has ended.
    pub(crate) fn end(&mut self, id: ThreadId) {
        self.threads.remove(&id);
    }

    /// The calls that led to a context, the last one first.
    pub(crate) fn calls(&self, context: ContextId) -> Vec<CallSite> {
        self.tree.calls(context)
    }

    /// Whether another context is that behind one of the calls that led to this one.
    pub(crate) fn leads_through(&self, context: ContextId, other: ContextId) -> bool {
        self.tree.leads_through(context, other)
    }

    /// How many calls are missing from paths, because there was no room.
    pub(crate) fn missing(&self) -> u64 {
        self.tree.missing
    }
}

impl Follower<'_> {
    /// The thread accesses memory.
    #[inline]
    pub(crate) fn access(&mut self, access: &Access) {
        if access.flags.contains(AccessFlags::RETURN_ADDRESS) {
            match access.kind {
                AccessKind::Write => self.stacks.call(self.tree, access.address, access.pc),
                AccessKind::Read => self.stacks.return_from(access.address),
            }
        }
    }

    /// The thread makes some accesses of an execution.
    pub(crate) fn executes(&mut self, execution: &Execution<'_>, accesses: &[PlainAccess]) {
        for access in accesses {
            if access.flags.contains(AccessFlags::RETURN_ADDRESS) {
                self.access(&execution.access(access));
            }
        }
    }

    /// The thread was last seen at this instruction.
    pub(crate) fn is_at(&mut self, pc: u64) {
        self.stacks.last_pc = pc;
    }

    /// Where the thread is.
    #[inline]
    pub(crate) fn context(&self) -> ContextId {
        self.stacks.context()
    }
}

#[cfg(test)]
mod tests;
