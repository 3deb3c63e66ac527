//! The signals that the kernel sends to a thread for what it writes to the trace.
//!
//! Where the reader of a pipe goes, that is `SIGPIPE`; where the limit of a file's size is reached,
//! `SIGXFSZ`. Neither is the program's: the write's own error says enough. Both are kept blocked
//! while the thread writes, and taken from the kernel behind it; a signal of the same number that
//! the program sends meanwhile stays.

use unspool_code_cache::slots::slots;

use super::deliver;
use crate::signals::{bit, change_exact_mask, code};

const KINDS: [u64; 2] = [bit(libc::SIGPIPE), bit(libc::SIGXFSZ)];
const ALL: u64 = KINDS[0] | KINDS[1];

/// Writes something of the trace, without a signal of that coming to the program.
pub fn kept_from_program<R>(write: impl FnOnce() -> R) -> R {
    let before = change_exact_mask(libc::SIG_BLOCK, ALL);
    // Where one waits already, the kernel drops another.
    let waiting = pending_here();
    let written = write();
    let raised = pending_here() & !waiting;
    for kind in KINDS.into_iter().filter(|kind| raised & kind != 0) {
        take(kind);
    }
    if before & ALL != ALL {
        reopen(before);
    }
    written
}

/// Opens the mask, unless a signal has come meanwhile: then the thread looks at that before.
fn reopen(mask: u64) {
    // SAFETY: both words live as long as the call; the slots are this thread's.
    unsafe { super::mask::unspool_set_mask(&raw const mask, slots().pending.as_ptr()) };
}

/// Those of the signals that wait for this thread, and not for its process.
fn pending_here() -> u64 {
    let mut all = 0_u64;
    // SAFETY: the kernel writes a mask of 8 bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut all, 8_usize) };
    match all & ALL {
        0 => 0,
        some => some & waiting_for_this_thread(),
    }
}

/// The kernel says only in text for whom a signal waits.
fn waiting_for_this_thread() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.unwrap_or(0)
}

/// Takes a signal; what waits for the thread comes before what waits for the process. One that
/// another thread has sent to this one stays: the write's own was dropped for it.
fn take(kind: u64) {
    if let Some((number, info)) = deliver::take_pending(kind)
        && code(&info) != libc::SI_USER
    {
        crate::signals::send_to_itself(number, &info);
    }
}
