//! Signals that the program sends to itself.
//!
//! A signal whose default action ends the process ends it before the call returns to its sender,
//! whichever thread it is sent to. Where the engine catches such signals, so that a recording
//! can be finished, the thread that gets one would end the process when it comes to it: so the
//! sender does it.

use unspool_kernel::ids::{Pid, Tid};
use unspool_kernel::{guarded, race_windows};

use super::pass;
use crate::call::Call;
use crate::finish;
use crate::process::{Process, ThreadHandle};
use crate::signal_handling::settle;
use crate::signals::actions::{self, DEFAULT};
use crate::signals::{SYNCHRONOUS, bit, directed};
use crate::thread::{AddressSpaceRole, PendingSignal, Thread};

/// `kill`, `tkill`, `tgkill`, `rt_sigqueueinfo`, `rt_tgsigqueueinfo`.
pub(super) fn send(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    if let Some(signal) = ends_this_process(process, thread, call) {
        finish::die(thread, signal);
    }
    match is_queued_fault(thread, call) {
        true => queue(process, thread, call),
        false => pass(process, call),
    }
}

/// `timer_create`.
pub(super) fn make_timer(process: &Process, call: &Call) -> i64 {
    let result = pass(process, call);
    if result == 0 {
        let [_, description, number_at, ..] = call.arguments;
        directed::timer_made(description, number_at);
    }
    result
}

/// Whether the call queues a signal of a fault for a thread of this process: the kernel would not
/// tell that thread that it is for it.
fn is_queued_fault(thread: &Thread, call: &Call) -> bool {
    let [group, _, signal, ..] = call.arguments.map(|argument| argument as i32);
    call.number as i64 == libc::SYS_rt_tgsigqueueinfo
        && thread.role == AddressSpaceRole::Process
        && Pid::of(group) == Pid::own()
        && (1..=64).contains(&signal)
        && bit(signal) & SYNCHRONOUS != 0
}

/// Gives the thread its signal, if the kernel finds nothing wrong with the call.
fn queue(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    const SIGNAL: usize = 2;
    let mut question = *call;
    question.arguments[SIGNAL] = 0;
    let result = pass(process, &question);
    if result != 0 {
        return result;
    }
    let [_, target, number, info_at, ..] = call.arguments;
    let mut bytes = [0; 128];
    if !guarded::read(info_at, &mut bytes) {
        return -i64::from(libc::EFAULT);
    }
    let word =
        |at: usize| u64::from_le_bytes(bytes[8 * at..][..8].try_into().expect("eight bytes"));
    let mut info: [u64; 16] = std::array::from_fn(word);
    info[0] = info[0] & !u64::from(u32::MAX) | u64::from(number as u32);
    let signal = PendingSignal {
        number: number as i32,
        info,
        fault: None,
        is_directed: true,
    };
    let target = Tid::of(target as i32);
    if target == thread.tid {
        thread.delivery.take(signal);
        settle(thread);
        return 0;
    }
    let own = Pid::own();
    // One that is just ending would not have come to it.
    give_signal(process, signal, |handle| {
        handle.process == own && handle.tid == target
    });
    0
}

/// Gives a signal to a thread, which gets it at its next boundary. Returns whether there is one.
pub fn give_signal(
    process: &Process,
    signal: PendingSignal,
    is_target: impl Fn(&ThreadHandle) -> bool,
) -> bool {
    let threads = process.threads.lock();
    let target = threads.iter().find(|handle| is_target(handle));
    if let Some(handle) = target {
        // SAFETY: the thread lives while it is listed, and the list is locked.
        unsafe { &(*handle.thread).held }.mailbox.put(signal);
        race_windows::widen();
        crate::requests::request_stop(*handle);
    }
    target.is_some()
}

/// The signal, if it ends the process at once.
fn ends_this_process(process: &Process, thread: &Thread, call: &Call) -> Option<i32> {
    let own = Pid::own();
    let [first, second, third, ..] = call.arguments.map(|argument| argument as i32);
    let (target, signal) = match call.number as i64 {
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo if Pid::of(first) == own => (None, second),
        libc::SYS_tkill => (Some(Tid::of(first)), second),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo if Pid::of(first) == own => {
            (Some(Tid::of(second)), third)
        }
        _ => return None,
    };
    let is_signal = (1..=64).contains(&signal);
    // The kernel takes such signals from the first process of a namespace for nothing, and the
    // engine leaves `SIGKILL` to it.
    if !is_signal
        || own == Pid::of(1)
        || thread.role != AddressSpaceRole::Process
        || signal == libc::SIGKILL
    {
        return None;
    }
    let is_fatal = thread.actions.get(signal).handler == DEFAULT
        && actions::ends_process(signal)
        && thread.actions.is_caught(signal);
    (is_fatal && somebody_takes(process, target, signal)).then_some(signal)
}

/// Whether a thread, or this one, lets the signal through.
fn somebody_takes(process: &Process, target: Option<Tid>, signal: i32) -> bool {
    let own = Pid::own();
    let threads = process.threads.lock();
    let mut candidates = threads
        .iter()
        .filter(|handle| handle.process == own && target.is_none_or(|tid| tid == handle.tid));
    // SAFETY: a thread lives while it is listed, and the list is locked.
    candidates.any(|handle| unsafe { &(*handle.thread).held }.mask() & bit(signal) == 0)
}
