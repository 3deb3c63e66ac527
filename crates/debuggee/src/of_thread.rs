//! What the debugger keeps for each thread of the program.

use unspool_engine::client::PerThread;
use unspool_engine::thread::Thread;

use super::reason::{Reason, WatchKind};

/// What is kept for each thread.
pub(super) static OF_THREAD: PerThread<OfThread> = PerThread::new();

/// What the debugger keeps for a thread.
#[derive(Debug, Default)]
pub(super) struct OfThread {
    /// What the debugger is to be told once the thread is outside the cache.
    pub(super) event: Option<Reason>,
    /// What the instruction that is being executed does to watched memory.
    pub(super) touches: Vec<Touch>,
    /// What else of it the debugger is to be told.
    pub(super) found: Vec<(u64, WatchKind)>,
    /// Whether it is to tell what has become of watched memory.
    pub(super) untold: bool,
    /// Whether the debugger has seen the pending signal.
    pub(super) seen: bool,
}

/// What is kept for a thread, if anything is.
pub(super) fn kept(thread: &Thread) -> Option<&OfThread> {
    // SAFETY: it lives as long as the thread, and changes by way of that alone.
    unsafe { OF_THREAD.get(thread).as_ref() }
}

impl OfThread {
    /// Whether there is nothing of which the debugger is to be told.
    pub(super) fn has_nothing_to_tell(&self) -> bool {
        self.event.is_none() && self.touches.is_empty() && self.found.is_empty()
    }
}

/// What a thread is about to do to watched memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Touch {
    /// Whether it writes.
    pub(super) write: bool,
    /// What it accesses.
    pub(super) what: Touched,
}

/// What of watched memory is accessed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Touched {
    /// This range.
    Range(u64, u64),
    /// As many of these as the count becomes less.
    Elements(Elements),
    /// What has changed since.
    Unknown,
}

/// Elements of a string instruction, from an address on, up- or downwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements {
    /// The first that is accessed.
    pub(super) address: u64,
    /// Bytes of each.
    pub(super) size: u64,
    /// What the register says that counts them.
    pub(super) count: u64,
    /// Whether the register has 32 bits.
    pub(super) narrow: bool,
}

impl Elements {
    /// The range of those that have been accessed when so many of the count are left.
    pub(super) fn until(self, thread: &Thread, left: u64) -> (u64, u64) {
        const DIRECTION: u64 = 0x400;
        let mask = if self.narrow { 0xffff_ffff } else { u64::MAX };
        let count = (self.count & mask).wrapping_sub(left & mask);
        let length = count.saturating_mul(self.size);
        let down = thread.slots().flags.get() & DIRECTION != 0;
        let last_end = self.address.wrapping_add(self.size);
        match down {
            true => (last_end.wrapping_sub(length), length),
            false => (self.address, length),
        }
    }
}
