//! What a filter's result means, and which of several results counts.

/// What becomes of a call that filters have judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is made.
    Allow,
    /// It is made by way of the kernel's copy of the filter, which logs it, asks a supervisor or
    /// a tracer.
    AskKernel(Question),
    /// It is not made, and returns this.
    Return(i64),
    /// It is not made: the thread gets a SIGSYS with this in `si_errno`.
    Trap(u16),
    /// The thread that asked for it ends as if this signal had killed it.
    KillThread(i32),
    /// The process dies by SIGSYS.
    KillProcess,
}

/// What the kernel does about a call before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Writes it to the log.
    Log,
    /// Asks a tracer; without one, the call fails.
    Tracer,
    /// Asks whoever has the listener; without one, the call fails.
    Supervisor,
}

/// `SECCOMP_RET_ALLOW`.
pub(crate) const ALLOW: u32 = 0x7fff_0000;
const KILL_THREAD: u32 = 0;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;
const USER_NOTIF: u32 = 0x7fc0_0000;
const TRACE: u32 = 0x7ff0_0000;
const LOG: u32 = 0x7ffc_0000;

const ACTION: u32 = 0xffff_0000;

/// Whether a filter's result counts more than another one's. Of equal ones the newer filter's
/// counts.
#[must_use]
pub(crate) fn is_stronger(result: u32, other: u32) -> bool {
    let severity = |result: u32| (result & ACTION) as i32;
    severity(result) < severity(other)
}

/// What a result means.
#[must_use]
pub(crate) fn meaning(result: u32) -> Verdict {
    const LARGEST_ERRNO: u16 = 4095;
    let data = result as u16;
    match result & ACTION {
        ALLOW => Verdict::Allow,
        LOG => Verdict::AskKernel(Question::Log),
        TRACE => Verdict::AskKernel(Question::Tracer),
        USER_NOTIF => Verdict::AskKernel(Question::Supervisor),
        ERRNO => Verdict::Return(-i64::from(data.min(LARGEST_ERRNO))),
        TRAP => Verdict::Trap(data),
        KILL_THREAD => Verdict::KillThread(libc::SIGSYS),
        // To kill the process, or something that the kernel does not know.
        _ => Verdict::KillProcess,
    }
}
