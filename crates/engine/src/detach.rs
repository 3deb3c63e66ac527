//! Letting a process go: from a moment on it runs natively, as if it had never been observed.
//!
//! The program's memory, stack, files and timers are the process's already, and its code is
//! original at its own addresses. What the engine has kept for the program goes back to the
//! kernel: the dispositions of signals, the program break and the vDSO of the process; the
//! signal mask, the alternate stack, the robust list, the word to be cleared at the end, and
//! FS and GS of each thread. Then each thread goes on at its program counter, by way of a
//! signal frame that the kernel restores. What stays is address space: the engine's, with its
//! threads' stacks.
//!
//! The order, in which nothing may change:
//! 1. All threads come to a safe point, outside the cache, with their state in their slots
//!    ([`gather`]). Until here everything can be undone, and everything that can be refused is.
//! 2. Each concludes what it recorded; then the process does.
//! 3. One thread hands back what is the process's ([`process_state`]).
//! 4. Each hands back what is its own and leaves ([`departure`]).
//!
//! Threads in system calls are interrupted and make their calls again, natively.

mod departure;
mod gather;
mod process_state;
mod refusal;
mod traced;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use self::refusal::Refusal;
pub(crate) use self::traced::{after_failed_execute, become_traced, is_to_be_traced, wants_tracer};

use crate::descriptors::Headroom;
use crate::finish;
use crate::process::Process;
use crate::signals::STOP;
use crate::thread::{Place, Thread};

/// What a thread keeps for this.
#[derive(Debug, Default)]
pub(crate) struct OfThread {
    /// The gathering for which the thread stands still; 0 for none.
    standing: AtomicU32,
    /// A child in its parent's place has asked to be traced: from its `execve` on.
    wants_tracer: bool,
}

/// Marks the STOP signal by which the process is asked to be let go.
const REQUEST: u64 = 0x756e_7370_6f6f_6c2f;

/// What was asked for and not been done yet: 0 for nothing, else [`ASKED`].
static ASKED_FOR: AtomicU64 = AtomicU64::new(0);
const ASKED: u64 = 1;

/// Why the process is let go: what the user is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It has asked its parent to trace it.
    AsksForTracer,
    /// Somebody has asked for it.
    Asked,
}

impl Cause {
    fn describe(self) -> &'static str {
        match self {
            Cause::AsksForTracer => "asks to be traced",
            Cause::Asked => "is no longer to be observed",
        }
    }
}

/// Whether a STOP signal asks for the process to be let go.
#[must_use]
pub(crate) fn is_request(signal: i32, info: &[u64; 16]) -> bool {
    signal == STOP && info[3] == REQUEST
}

/// Keeps what such a signal asks for. For signal handlers.
pub(crate) fn note_request(_info: &[u64; 16]) {
    ASKED_FOR.store(ASKED, Ordering::Release);
}

/// The thread is outside the cache with its state in its slots, and no signal is on its way to
/// the program: if the process is to be let go, the thread stands still for it, or leaves.
#[inline]
pub(crate) fn at_safe_point(thread: &mut Thread) {
    if gather::is_under_way() {
        gather::join(thread);
    }
    if ASKED_FOR.load(Ordering::Acquire) != 0 {
        take_request(thread);
    }
}

#[cold]
fn take_request(thread: &mut Thread) {
    if thread.place != Place::Process || thread.exit_status.is_some() {
        // Another thread is to take it.
        return finish::interrupt_others(thread);
    }
    if ASKED_FOR.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    let refusal = let_go(thread, Cause::Asked);
    finish::say(&format!(
        "unspool: process {} stays under observation: {refusal}",
        std::process::id()
    ));
}

/// Lets the process go. The thread is at a safe point. Returns only if that cannot be done.
fn let_go(thread: &mut Thread, cause: Cause) -> Refusal {
    let process = Process::get();
    if let Err(refusal) = gather::stop_all(process, thread) {
        return refusal;
    }
    gather::have_all_conclude();
    // Threads that stand still are no longer listed.
    finish::conclude(thread, finish::Ending::AnotherProgram);
    finish::say(&format!(
        "unspool: process {} {} and is let go: it runs natively from here on",
        std::process::id(),
        cause.describe()
    ));
    let headroom = Headroom::get();
    process_state::await_threads(gather::size());
    process_state::hand_back(process, thread);
    drop(headroom);
    let departure = departure::Departure::of(thread);
    gather::have_all_leave();
    departure.leave()
}

/// In a forked child: nobody else is here to be waited for, and what was asked of its parent was
/// not asked of it.
pub(crate) fn forget_others(thread: &mut Thread) {
    ASKED_FOR.store(0, Ordering::Release);
    gather::forget();
    thread.detach = OfThread::default();
}
