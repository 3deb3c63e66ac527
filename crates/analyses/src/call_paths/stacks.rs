//! The stacks of a thread: most have one, and programs that switch stacks more.

use super::tree::{ContextId, Place, Tree};

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Where its return address is.
    address: u64,
    /// The context behind the call.
    context: ContextId,
}

/// A stack: frames from the outermost one, at ever lower addresses.
#[derive(Debug, Default)]
struct Stack {
    frames: Vec<Frame>,
    /// Where the thread was when it came to this stack for the first time.
    origin: ContextId,
}

/// What was interrupted by a signal.
#[derive(Debug)]
struct Interruption {
    /// The address of the frame that stands for the interrupted instruction.
    address: u64,
    context: ContextId,
}

/// All stacks of a thread.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    current: Stack,
    /// Those that the thread has left, the last one last.
    others: Vec<Stack>,
    interruptions: Vec<Interruption>,
    /// Where the thread was last seen.
    pub(super) last_pc: u64,
}

/// A call this far below the last one is on another stack; so much of one a function seldom takes.
const REACH: u64 = 256 << 10;
/// A call this far above the first one of a stack is on another.
const ABOVE: u64 = 4 << 10;
/// Stacks of a thread that are kept: those that were left longest ago are forgotten.
const STACKS_KEPT: usize = 256;
/// Signal handlers of a thread that have not returned, as far as they are kept: those that were left
/// by a jump never do.
const INTERRUPTIONS_KEPT: usize = 64;
/// Frames of a stack that are kept: calls below them belong to the last of these.
const FRAMES_KEPT: usize = 1 << 16;

impl Stack {
    fn context(&self) -> ContextId {
        self.frames
            .last()
            .map_or(self.origin, |frame| frame.context)
    }

    /// Whether a call that leaves its return address there may be on this stack.
    fn reaches(&self, address: u64) -> bool {
        match (self.frames.first(), self.frames.last()) {
            (Some(first), Some(last)) => {
                address <= first.address.saturating_add(ABOVE)
                    && address.saturating_add(REACH) >= last.address
            }
            _ => false,
        }
    }

    /// The number of the frame whose return address is there.
    fn find(&self, address: u64) -> Option<usize> {
        let found = self
            .frames
            .binary_search_by(|frame| address.cmp(&frame.address));
        found.ok()
    }

    /// Frames at or below an address are no more.
    fn leave(&mut self, address: u64) {
        while self
            .frames
            .pop_if(|frame| frame.address <= address)
            .is_some()
        {}
    }
}

impl Stacks {
    #[inline]
    pub(super) fn context(&self) -> ContextId {
        self.current.context()
    }

    /// A call leaves its return address on the stack.
    #[inline]
    pub(super) fn call(&mut self, tree: &mut Tree, address: u64, pc: u64) {
        let is_next = self
            .current
            .frames
            .last()
            .is_some_and(|last| address < last.address && last.address - address <= REACH);
        if !is_next {
            if !self.current.frames.is_empty() && !self.current.reaches(address) {
                self.switch(address);
            }
            self.current.leave(address);
        }
        if self.current.frames.len() == FRAMES_KEPT {
            tree.missing += 1;
            return;
        }
        let context = tree.callee(self.current.context(), Place::call(pc));
        self.current.frames.push(Frame { address, context });
    }

    /// A return takes its address from the stack.
    #[inline]
    pub(super) fn return_from(&mut self, address: u64) {
        let is_last = |last: &mut Frame| last.address == address;
        if self.current.frames.pop_if(is_last).is_none() {
            self.return_far(address);
        }
    }

    /// To another frame than that which was called last: functions were left without a return, the
    /// thread goes on with another stack, or the program has put an address there itself.
    fn return_far(&mut self, address: u64) {
        if self.current.find(address).is_none() {
            let holds = |stack: &Stack| stack.find(address).is_some();
            if let Some(found) = self.others.iter().rposition(holds) {
                let found = self.others.remove(found);
                self.replace(found);
            }
        }
        if self.current.reaches(address) {
            self.current.leave(address);
        }
    }

    /// The thread goes on with another stack: one that it has left, or a new one.
    fn switch(&mut self, address: u64) {
        let reaches = |stack: &Stack| stack.reaches(address);
        let next = match self.others.iter().rposition(reaches) {
            Some(found) => self.others.remove(found),
            None => Stack {
                frames: Vec::new(),
                origin: self.context(),
            },
        };
        self.replace(next);
    }

    fn replace(&mut self, next: Stack) {
        let left = std::mem::replace(&mut self.current, next);
        if !left.frames.is_empty() {
            if self.others.len() == STACKS_KEPT {
                self.others.remove(0);
            }
            self.others.push(left);
        }
    }

    /// The kernel calls a signal handler. What it calls is below the frame that this pushes, or on a
    /// stack of its own, which is then left again for that with this frame.
    pub(super) fn interrupt(&mut self, tree: &mut Tree) {
        let context = tree.callee(self.context(), Place::interrupted(self.last_pc));
        let last = self.current.frames.last();
        let address = last.map_or(u64::MAX, |last| last.address - 1);
        self.current.frames.push(Frame { address, context });
        if self.interruptions.len() == INTERRUPTIONS_KEPT {
            self.interruptions.remove(0);
        }
        self.interruptions.push(Interruption { address, context });
    }

    /// A signal handler returns.
    pub(super) fn resume(&mut self) {
        // Handlers that were left by a jump have never returned.
        while let Some(Interruption { address, context }) = self.interruptions.pop() {
            let is_it = |stack: &Stack| {
                let found = stack.find(address);
                found.is_some_and(|found| stack.frames[found].context == context)
            };
            if !is_it(&self.current) {
                let Some(found) = self.others.iter().rposition(is_it) else {
                    continue;
                };
                let found = self.others.remove(found);
                self.replace(found);
            }
            self.current.leave(address);
            return;
        }
    }
}
