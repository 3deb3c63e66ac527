//! What a tool can have inserted, and where.

use super::Counter;

/// When an action happens with respect to its instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Before it is executed.
    Before,
    /// After it, where control goes on at the next instruction.
    After,
    /// After it, where control goes to its target.
    Taken,
}

/// What is to be done at a place.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Adds to a counter of the thread. At [`Place::Before`] it counts only if the
    /// instruction completes: one that faults is not counted, and a repeated string
    /// instruction counts once.
    Count {
        /// The counter.
        counter: Counter,
        /// What to add.
        amount: u32,
    },
}
