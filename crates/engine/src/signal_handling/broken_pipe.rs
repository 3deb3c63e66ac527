//! The signal that says that nobody reads the trace any more.
//!
//! A trace may go into a pipe. Where its reader goes, the kernel sends the writing thread
//! `SIGPIPE`, which is not the program's: the write's own error says enough. It is kept blocked
//! while the thread writes, and taken from the kernel behind it; a signal of the same number that
//! the program sends meanwhile stays.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_code_cache::slots::slots;

use super::deliver;
use crate::signals::{bit, change_exact_mask, code};

const KIND: u64 = bit(libc::SIGPIPE);

/// Whether a trace goes to where a write can raise the signal.
static MAY_COME: AtomicBool = AtomicBool::new(false);

/// The trace goes to this file.
pub fn expect(file: &File) {
    let is_pipe = |kind: std::fs::FileType| kind.is_fifo() || kind.is_socket();
    if file
        .metadata()
        .map_or(true, |facts| is_pipe(facts.file_type()))
    {
        MAY_COME.store(true, Ordering::Relaxed);
    }
}

/// Writes something of the trace, without the signal coming to the program.
pub fn kept_from_program(write: impl FnOnce()) {
    if !MAY_COME.load(Ordering::Relaxed) {
        return write();
    }
    let before = change_exact_mask(libc::SIG_BLOCK, KIND);
    // Where one waits already, the kernel drops another.
    let waits = is_pending_here();
    write();
    if !waits && is_pending_here() {
        take();
    }
    if before & KIND == 0 {
        reopen(before);
    }
}

/// Opens the mask, unless a signal has come meanwhile: then the thread looks at that before.
fn reopen(mask: u64) {
    // SAFETY: both words live as long as the call; the slots are this thread's.
    unsafe { super::mask::unspool_set_mask(&raw const mask, slots().pending.as_ptr()) };
}

/// Whether the signal waits for this thread, and not for its process.
fn is_pending_here() -> bool {
    let mut all = 0_u64;
    // SAFETY: the kernel writes a mask of 8 bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut all, 8_usize) };
    all & KIND != 0 && waits_for_this_thread()
}

/// The kernel says only in text for whom a signal waits.
fn waits_for_this_thread() -> bool {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & KIND != 0)
}

/// Takes the signal; what waits for the thread comes before what waits for the process. One that
/// another thread has sent to this one stays: the write's own was dropped for it.
fn take() {
    if let Some((number, info)) = deliver::take_pending(KIND)
        && code(&info) != libc::SI_USER
    {
        crate::signals::send_to_itself(number, &info);
    }
}
