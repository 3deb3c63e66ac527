//! What a debugger is told when the program stops.

/// Why the program stopped, or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The thread is before an instruction with a breakpoint.
    Breakpoint,
    /// The thread has executed the one instruction that it was to execute.
    Step,
    /// The thread is about to get a signal (its number).
    Signal(i32),
    /// The thread has accessed memory that is watched.
    Watch {
        /// The first watched byte of it.
        address: u64,
        /// What is watched for there.
        kind: WatchKind,
    },
    /// A tool wants the program to be looked at, and says why.
    Tool(String),
    /// The debugger asked for it.
    Interrupted,
    /// The only threads that were let go have ended; others wait.
    ThreadEnded,
    /// The program has ended, with this status.
    Exited(i32),
    /// The program has been ended by this signal.
    Killed(i32),
}

/// Which accesses are watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchKind {
    /// Writes.
    Write,
    /// Reads.
    Read,
    /// Both.
    Access,
}

impl WatchKind {
    pub(super) fn includes(self, write: bool) -> bool {
        match self {
            WatchKind::Write => write,
            WatchKind::Read => !write,
            WatchKind::Access => true,
        }
    }
}
