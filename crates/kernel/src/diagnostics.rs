//! What the engine says to the user, beside the program: on a copy of standard error that the
//! program cannot close.

use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::descriptors::{Headroom, copy_away};

/// Exit status of a process that ends because the engine failed.
pub const ENGINE_FAILURE: i32 = 125;

const STANDARD_ERROR: i32 = 2;

/// Where the engine speaks: a copy of standard error that the program cannot close.
static DIAGNOSTICS: AtomicI32 = AtomicI32::new(-1);

/// Keeps a copy of standard error.
pub fn duplicate_stderr() {
    let _headroom = Headroom::get();
    // SAFETY: asks for the flags of a descriptor.
    let is_open = unsafe { libc::fcntl(STANDARD_ERROR, libc::F_GETFD) } >= 0;
    let itself = if is_open { STANDARD_ERROR } else { -1 };
    let copy = copy_away(STANDARD_ERROR).map_or(itself, IntoRawFd::into_raw_fd);
    DIAGNOSTICS.store(copy, Ordering::Relaxed);
}

/// The descriptor to speak to: the copy, standard error itself where the limit of descriptors
/// allows none, or -1 where standard error was closed.
#[must_use]
pub fn diagnostics_fd() -> i32 {
    DIAGNOSTICS.load(Ordering::Relaxed)
}

/// The copy, which the program must not close.
#[must_use]
pub fn own_diagnostics() -> Option<i32> {
    Some(diagnostics_fd()).filter(|&fd| fd != STANDARD_ERROR)
}

/// Tells the user something. Allocates nothing.
pub fn say(message: &str) {
    say_at_once([message, "\n"]);
}

/// Tells the user something in whole lines. Allocates nothing.
pub fn say_lines(text: &str) {
    say_at_once([text]);
}

/// Shows a line that the next one replaces, on a terminal.
pub fn say_in_place(message: &str) {
    say_at_once(["\r\x1b[K", message]);
}

/// The parts one behind the other, in one call, so that what others say does not come between.
fn say_at_once<const PARTS: usize>(parts: [&str; PARTS]) {
    let pieces = parts.map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    });
    // SAFETY: writes our own bytes to our own descriptor; nothing is to be done if it fails.
    unsafe { libc::writev(diagnostics_fd(), pieces.as_ptr(), PARTS as i32) };
}

/// Says what is wrong and ends the process. Allocates nothing: the allocator may be what a child
/// that is gone has left half changed.
pub fn fatal(message: &str) -> ! {
    say_at_once(["error: ", message, "\n"]);
    // SAFETY: ends the process.
    unsafe { libc::_exit(ENGINE_FAILURE) }
}
