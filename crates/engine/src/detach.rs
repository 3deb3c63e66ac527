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
//!    (`gather`). Until here everything can be undone, and everything that can be refused is.
//! 2. Each concludes what it recorded; then the process does.
//! 3. One thread hands back what is the process's (`process_state`).
//! 4. Each hands back what is its own and leaves (`departure`).
//!
//! Threads in system calls are interrupted and make their calls again, natively.
//!
//! A process lets itself go when it is about to be traced (`traced`), after a time or at the end
//! of a region of interest if the plan says so (`when`), and when another process asks for it
//! (`request`).

mod departure;
mod gather;
mod mark;
mod native_calls;
mod native_wait;
mod process_state;
mod request;
mod traced;
mod unfinished_call;
mod when;

use crate::client::{self, Exhausted, Refusal};
use crate::requests;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use unspool_kernel::diagnostics;

use self::native_calls::NativeCall;
pub use self::request::{AskError, ask, descendants};
pub(crate) use self::traced::{
    after_failed_execute, become_traced, is_to_be_traced, let_go_for_tracer, wants_tracer,
};
pub use self::when::annotated;
pub(crate) use self::when::begin;

use crate::call::SYSCALL_LENGTH;
use crate::finish;
use crate::requests::{ANSWER, ASKED, ASKER, STOP_AFTERWARDS, ask_self};
use crate::thread::{AddressSpaceRole, LettingGo, Thread};
use unspool_kernel::descriptors::{Headroom, move_away};
use unspool_kernel::lock::Mutex;

/// Why the process is let go: what the user is told.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    /// It has asked its parent to trace it.
    AsksForTracer,
    /// Somebody has asked for it.
    Asked,
    /// What is recorded of it can go no further.
    RecordingEnds(Exhausted),
    /// It makes a child beside it, for which the engine would need a thread.
    GetsNoThread,
}

impl Cause {
    fn describe(&self) -> String {
        match self {
            Cause::AsksForTracer => " asks to be traced and".to_owned(),
            Cause::Asked => String::new(),
            Cause::GetsNoThread => " makes a child that shares its memory, for which the kernel gives unspool no thread, because the child is to be in another PID namespace: the process".to_owned(),
            Cause::RecordingEnds(exhausted) => {
                format!(": the recording ends here, because {exhausted}; it")
            }
        }
    }
}

/// Why the process lets itself go, where no one has asked for it.
static EXHAUSTED: Mutex<Option<Exhausted>> = Mutex::new(None);

/// What is recorded can go no further: before it executes another instruction, the thread lets the
/// process go. Where that cannot be, the process ends.
pub fn end_recording_next(thread: &Thread, exhausted: Exhausted) {
    *EXHAUSTED.lock() = Some(exhausted);
    ask_self(thread);
}

/// The thread is outside the cache with its state in its slots, and no signal is on its way to
/// the program: if the process is to be let go, the thread stands still for it, or leaves.
#[inline]
pub(crate) fn at_safe_point(thread: &mut Thread) {
    if gather::is_under_way() {
        gather::join(thread);
    }
    if ASKED.load(Ordering::Acquire) != 0 {
        take_request(thread);
    }
}

#[cold]
fn take_request(thread: &mut Thread) {
    if thread.role != AddressSpaceRole::Process || thread.exit_status.is_some() {
        // Another thread is to take it.
        return requests::interrupt_others(thread);
    }
    if ASKED.swap(0, Ordering::AcqRel) == 0 {
        return;
    }
    let exhausted = EXHAUSTED.lock().clone();
    let cause = exhausted.map_or(Cause::Asked, Cause::RecordingEnds);
    let refusal = let_go(thread, &cause);
    if let Cause::RecordingEnds(exhausted) = cause {
        diagnostics::fatal(&format!(
            "{exhausted}, and the process cannot be let go: {refusal}"
        ));
    }
    diagnostics::say(&format!(
        "unspool: process {} stays under observation: {refusal}",
        std::process::id()
    ));
    if let Some((mut answer, _)) = open_answer() {
        // The asker may be gone.
        let _ = write!(answer, "{}{refusal}", char::from(request::REFUSED));
    }
}

/// Where the asker waits for an answer, and whether the process is to stop. `None` where nobody
/// waits, or the process does not see the asker.
fn open_answer() -> Option<(File, bool)> {
    let asker = ASKER.swap(0, Ordering::AcqRel);
    let answer = ANSWER.load(Ordering::Acquire);
    if asker == 0 {
        return None;
    }
    let path = format!("/proc/{asker}/fd/{}", answer & (STOP_AFTERWARDS - 1));
    let file = OpenOptions::new().write(true).open(path).ok()?;
    let file = File::from(move_away(OwnedFd::from(file)));
    Some((file, answer & STOP_AFTERWARDS != 0))
}

/// A thread cannot be started, because the trace could not name it: the recording ends, and the
/// process goes on natively, with the call that is to start the thread. Returns what the call
/// returns if it cannot be let go.
pub(crate) fn end_recording(thread: &mut Thread, exhausted: &Exhausted) -> i64 {
    thread.set_pc(thread.pc() - SYSCALL_LENGTH);
    let refusal = let_go(thread, &Cause::RecordingEnds(exhausted.clone()));
    thread.clients().each(|client| client.exhaustion_refused());
    thread.set_pc(thread.pc() + SYSCALL_LENGTH);
    diagnostics::say(&format!(
        "unspool: process {} gets no further thread: {exhausted}, and it cannot be let go: {refusal}",
        std::process::id()
    ));
    -i64::from(libc::EAGAIN)
}

/// A child that is to share the memory and run beside its parent cannot be made under observation,
/// because the kernel gives the process no thread: the process goes on natively, with the call that
/// is to make the child. Returns what the call returns if it cannot be let go.
pub(crate) fn make_child_natively(thread: &mut Thread) -> i64 {
    thread.set_pc(thread.pc() - SYSCALL_LENGTH);
    let refusal = let_go(thread, &Cause::GetsNoThread);
    thread.set_pc(thread.pc() + SYSCALL_LENGTH);
    diagnostics::say(&format!(
        "unspool: process {} gets no child that shares its memory in another PID namespace, and it cannot be let go: {refusal}",
        std::process::id()
    ));
    -i64::from(libc::EAGAIN)
}

/// Lets the process go. The thread is at a safe point. Returns only if that cannot be done.
fn let_go(thread: &mut Thread, cause: &Cause) -> Refusal {
    let process = thread.process;
    if let Err(refusal) = gather::stop_all(process, thread) {
        return refusal;
    }
    gather::have_all_conclude();
    // Threads that stand still are no longer listed.
    finish::conclude(thread, client::Ending::AnotherProgram);
    diagnostics::say(&format!(
        "unspool: process {}{} is let go: it runs natively from here on",
        std::process::id(),
        cause.describe()
    ));
    let headroom = Headroom::get();
    process_state::await_threads(gather::size());
    let departure = departure::Departure::through(thread, &take_leave());
    process_state::hand_back(process, thread);
    drop(headroom);
    gather::have_all_leave();
    departure.leave()
}

/// From here on nobody is to ask for anything. Returns what is to be done natively: the asker
/// hears of it when its pipe is closed, and may want the process to be stopped.
fn take_leave() -> Vec<NativeCall> {
    when::forget();
    mark::hide();
    if ASKER.load(Ordering::Acquire) == 0 {
        // Who has asked has the right to, and nobody else can.
        request::await_last_request();
    }
    let mut calls = Vec::new();
    if let Some((mut answer, stops)) = open_answer() {
        // The asker may be gone.
        let _ = answer.write_all(&[request::TAKEN]);
        calls.push(NativeCall {
            number: libc::SYS_close,
            arguments: [answer.into_raw_fd() as u64, 0],
        });
        if stops {
            calls.push(NativeCall {
                number: libc::SYS_kill,
                arguments: [u64::from(std::process::id()), libc::SIGSTOP as u64],
            });
        }
    }
    calls
}

/// In a forked child: nobody else is here to be waited for, and what others asked of its parent
/// was not asked of it. What ends the parent's recording ends the child's, which has the same
/// memory.
pub(crate) fn forget_others(thread: &mut Thread) {
    ASKED.store(0, Ordering::Release);
    ASKER.store(0, Ordering::Release);
    gather::forget();
    thread.detach = LettingGo::default();
    when::start(thread.process);
    if EXHAUSTED.lock().is_some() {
        ask_self(thread);
    }
}
