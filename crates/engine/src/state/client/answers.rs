//! What clients are told and answer that has more than two values.

use std::fmt;

/// Why a client cannot go on with a further thread. The process is let go then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exhausted(pub String);

impl fmt::Display for Exhausted {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

/// How the program in this process comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The process dies, by this signal if there is one.
    Death(Option<i32>),
    /// The process becomes another program, or goes on with this one, and runs natively.
    AnotherProgram,
    /// The process becomes another program, which is observed as this one is.
    ObservedProgram,
}

/// How a process has ended, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// How many rounds of a repeated string instruction a thread makes before it can be left between
/// two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rounds {
    /// None: the state is the program's behind each.
    None,
    /// Many: what is inserted before the instruction has been done, and will be done again.
    Many,
    /// All: the client knows of no such instruction there.
    All,
}

/// What is done about a fault that a client has brought about by accesses of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFault {
    /// What was to be accessed is accessible now: the access is made again.
    Again,
    /// What was to be accessed cannot be there: the comparison, of so many bytes, is left out, as
    /// if both were equal.
    Equal(u64),
}
