//! The signal of the timers. Programs hardly use one so high; those that do keep their handler
//! ([`crate::signals`]).

use std::ffi::c_int;

use libc::sigset_t;

use crate::slot;
use crate::system_call::system_call;

/// Below the highest, which valgrind and others have, and above those that are given out from
/// `SIGRTMIN` on.
pub(crate) const SIGNAL: c_int = 60;

/// The kernel's set of this one signal.
const ONLY: u64 = 1 << (SIGNAL - 1);

/// The same set without the signal.
pub(crate) fn without(set: &sigset_t) -> sigset_t {
    let mut set = *set;
    // SAFETY: a set of this frame.
    unsafe { libc::sigdelset(&raw mut set, SIGNAL) };
    set
}

/// The same set with the signal.
pub(crate) fn with(set: &sigset_t) -> sigset_t {
    let mut set = *set;
    // SAFETY: a set of this frame.
    unsafe { libc::sigaddset(&raw mut set, SIGNAL) };
    set
}

/// Keeps the signal away from this thread; says whether it was not away before.
pub(crate) fn block() -> bool {
    change(libc::SIG_BLOCK) & ONLY == 0
}

/// Lets the signal come to this thread.
pub(crate) fn unblock() {
    change(libc::SIG_UNBLOCK);
}

/// Makes a call with the signal away from this thread, where the process is sampled: what expires
/// meanwhile comes as one signal behind it.
#[inline(always)]
pub(crate) fn away<R>(call: impl FnOnce() -> R) -> R {
    let is_unblocked = slot::is_open() && block();
    let result = call();
    if is_unblocked {
        unblock();
    }
    result
}

/// Changes the thread's mask by this signal; gives the mask before. What waited for it comes here,
/// in code of this library, which the reader leaves out: its time is that of the caller.
#[inline(always)]
fn change(how: c_int) -> u64 {
    let (only, mut before) = (ONLY, 0_u64);
    // SAFETY: the kernel reads one word and writes another, both of this frame.
    unsafe {
        let places = [(&raw const only).addr(), (&raw mut before).addr()];
        let arguments = [how as usize, places[0], places[1], size_of::<u64>(), 0, 0];
        system_call(libc::SYS_rt_sigprocmask, arguments);
    }
    before
}
