//! What a look at locks says.

use super::operation::LockKind;
use crate::call_paths::ContextId;

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockReport {
    /// Those that have happened, then those that may happen.
    pub deadlocks: Vec<Deadlock>,
    /// What is done with locks that must not be, in the order of time.
    pub misuse: Vec<Misuse>,
    /// Places at which different threads took a lock directly one behind the other.
    pub successions: Vec<Succession>,
    /// How often such places were left out, because there were too many.
    pub successions_beyond: u64,
    /// Whether functions that lock were seen at all: none are where the trace was recorded without
    /// them.
    pub saw_functions: bool,
    /// Findings beyond those that are kept.
    pub beyond: u64,
    /// Whether the search for cycles was ended before it had gone everywhere.
    pub is_cut_short: bool,
}

/// Threads of which each waits for the next, and the last for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// How much is known of it.
    pub certainty: Certainty,
    /// The threads, each of which has what the one before it wants.
    pub parties: Vec<Party>,
    /// When the last of them began to wait, in the order of the trace.
    pub time: u64,
}

/// How much is known of a deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// It has happened.
    Happened,
    /// Another order of the same events leads to it.
    Predicted,
    /// Another schedule may lead to it, as far as locks and what threads know of one another tell.
    Possible,
}

/// A thread in a deadlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// Its number.
    pub thread: u32,
    /// What it has, and the one before it wants; none where that one waits for the thread's end.
    pub holds: Option<LockUse>,
    /// What it wants.
    pub wants: Wanted,
}

/// What a thread waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A lock.
    Lock(LockUse),
    /// The end of a thread.
    End {
        /// Its number.
        thread: u32,
        /// The calls that led to the wait.
        context: ContextId,
    },
}

/// A lock, and where it is or was to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockUse {
    /// Where it is.
    pub address: u64,
    /// What it is.
    pub kind: LockKind,
    /// Whether others may have it, too.
    pub is_shared: bool,
    /// The calls that led there, the function that locks first.
    pub context: ContextId,
}

/// A lock that a thread took directly behind another one, at least one of them alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Succession {
    /// How the lock was taken first.
    pub first: LockUse,
    /// How it was taken next.
    pub second: LockUse,
    /// How often, at these places.
    pub times: u64,
}

/// What must not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MisuseKind {
    /// A lock that another thread holds is unlocked.
    UnlockOfOthers,
    /// A lock that nobody holds is unlocked.
    UnlockOfFree,
    /// A thread locks again what it holds, and is told so.
    LockedTwice,
    /// A lock is destroyed that somebody holds.
    DestroyedWhileHeld,
    /// A mutex is used that was destroyed, and the function fails.
    UsedAfterDestruction,
    /// A condition is waited for with a mutex that the thread does not hold.
    WaitWithoutLock,
    /// A thread ends with a lock.
    HeldAtEnd,
}

impl MisuseKind {
    /// All of them.
    pub const ALL: [MisuseKind; 7] = [
        MisuseKind::UnlockOfOthers,
        MisuseKind::UnlockOfFree,
        MisuseKind::LockedTwice,
        MisuseKind::DestroyedWhileHeld,
        MisuseKind::UsedAfterDestruction,
        MisuseKind::WaitWithoutLock,
        MisuseKind::HeldAtEnd,
    ];
}

/// Something that must not be done, and was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misuse {
    /// What.
    pub kind: MisuseKind,
    /// The lock.
    pub lock: (u64, LockKind),
    /// Where it was done; of a lock that a thread leaves, where that has taken it.
    pub place: Step,
    /// What came before it: where the lock was taken, or destroyed.
    pub before: Option<Step>,
    /// How often.
    pub occurrences: u64,
    /// When it was first seen, in the order of the trace.
    pub time: u64,
}

/// Somebody has done something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The thread.
    pub thread: u32,
    /// The calls that led there.
    pub context: ContextId,
}
