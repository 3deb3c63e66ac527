//! Why a process cannot be let go.

use std::fmt;

use unspool_kernel::ids::Tid;

/// What keeps a process under observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A child shares its memory and runs beside it, translated.
    SharedMemory,
    /// A debugger has it.
    Debugger,
    /// A tool has put functions of its own in the place of the program's.
    ReplacedFunctions,
    /// A thread that is none of the program's runs in it.
    ForeignThread(Tid),
    /// A thread does not come to a safe point.
    Busy(Tid),
    /// A seccomp filter judges its calls that the kernel would not take.
    Filter,
    /// It cannot see `/proc/self`.
    NoProc,
    /// The kernel does not let it say where its break is.
    Break,
    /// The kernel does not let it move its vDSO.
    Vdso,
    /// It is ending, or being let go already.
    Ending,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::SharedMemory => write!(
                to,
                "a child process shares its memory and runs beside it; try again when that has ended"
            ),
            Refusal::Debugger => write!(to, "a debugger is attached to it through --gdb"),
            Refusal::ReplacedFunctions => write!(
                to,
                "the tool has replaced functions of the program, which may be under way"
            ),
            Refusal::ForeignThread(thread) => write!(
                to,
                "thread {thread} of it is not the program's but the tool's, and would meet the program's signals"
            ),
            Refusal::Busy(thread) => write!(
                to,
                "thread {thread} of it did not come out of what it does in time (a child between vfork and execve holds its parent); try again"
            ),
            Refusal::Filter => write!(
                to,
                "a seccomp filter judges its system calls that cannot be left to the kernel: a supervisor answers for it, the process may not install filters any more, or the kernel has no room for it"
            ),
            Refusal::NoProc => write!(to, "it does not see itself in /proc, as letting go needs"),
            Refusal::Break => write!(
                to,
                "this kernel does not let a process say where its break is (CONFIG_CHECKPOINT_RESTORE)"
            ),
            Refusal::Vdso => write!(to, "this kernel does not let a process move its vDSO"),
            Refusal::Ending => write!(to, "it is ending"),
        }
    }
}
