//! Signals that the program sends to itself.
//!
//! A signal whose default action ends the process ends it before the call returns to its sender,
//! whichever thread it is sent to. Where the engine catches such signals, so that a recording
//! can be finished, the thread that gets one would end the process when it comes to it: so the
//! sender does it.

use super::{Call, pass};
use crate::process::Process;
use crate::signals::actions::{self, DEFAULT};
use crate::signals::{bit, deliver};
use crate::thread::{Place, Thread};

/// `kill`, `tkill`, `tgkill`, `rt_sigqueueinfo`, `rt_tgsigqueueinfo`.
pub(super) fn send(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    if let Some(signal) = ends_this_process(process, thread, call) {
        deliver::die(thread, signal);
    }
    pass(process, call)
}

/// The signal, if it ends the process at once.
fn ends_this_process(process: &Process, thread: &Thread, call: &Call) -> Option<i32> {
    let own = std::process::id() as i32;
    let [first, second, third, ..] = call.arguments.map(|argument| argument as i32);
    let (target, signal) = match call.number as i64 {
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo if first == own => (None, second),
        libc::SYS_tkill => (Some(first), second),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo if first == own => (Some(second), third),
        _ => return None,
    };
    let is_signal = (1..=64).contains(&signal);
    // The kernel takes such signals from the first process of a namespace for nothing, and the
    // engine leaves `SIGKILL` to it.
    if !is_signal || own == 1 || thread.place != Place::Process || signal == libc::SIGKILL {
        return None;
    }
    let is_fatal = thread.actions.get(signal).handler == DEFAULT
        && actions::ends_process(signal)
        && thread.actions.is_caught(signal);
    (is_fatal && somebody_takes(process, target, signal)).then_some(signal)
}

/// Whether a thread, or this one, lets the signal through.
fn somebody_takes(process: &Process, target: Option<i32>, signal: i32) -> bool {
    let own = std::process::id() as i32;
    let threads = process.threads.lock();
    let mut candidates = threads
        .iter()
        .filter(|handle| handle.process == own && target.is_none_or(|tid| tid == handle.tid));
    // SAFETY: a thread lives while it is listed, and the list is locked.
    candidates.any(|handle| unsafe { &(*handle.thread).held }.mask() & bit(signal) == 0)
}
