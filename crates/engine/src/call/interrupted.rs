//! A system call that is to be made again.

use super::Call;
use super::relative_waits::RelativeWait;
use crate::signals::bit;

/// A system call that the engine has interrupted, and that is to be made again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interrupted {
    /// The program counter behind it, and the stack pointer.
    pub(crate) place: (u64, u64),
    /// What the program asked for: number and arguments.
    pub(crate) asked: (u64, [u64; 6]),
    /// What a tool may have made of it.
    pub(crate) made: Call,
    /// When it is to end, if it waits for some time.
    pub(crate) wait: Option<RelativeWait>,
    /// Whether a handler with `SA_RESTART` has it made again.
    pub(crate) restarts: bool,
    /// The signals that it blocks for its own duration.
    pub(crate) blocks: u64,
}

impl Interrupted {
    /// The program counter behind it.
    pub(crate) fn behind(&self) -> u64 {
        self.place.0
    }

    /// When it is to end, if it waits for some time.
    pub(crate) fn wait(&self) -> Option<RelativeWait> {
        self.wait
    }

    /// Whether a handler that is entered for this signal ends the call. `restarts`: it has
    /// `SA_RESTART`.
    pub(crate) fn is_ended_by(&self, signal: i32, restarts: bool) -> bool {
        self.blocks & bit(signal) == 0 && !(self.restarts && restarts)
    }
}
