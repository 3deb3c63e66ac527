//! System calls that ask for pending signals or wait for signals.
//!
//! The kernel knows of all that the program blocks, apart from the few signals that the engine
//! cannot block ([`SYNCHRONOUS`], [`STOP`]): of these the thread keeps what was sent while the
//! program blocked them. What is asked for pending signals adds them. What may take them, such as
//! `sigtimedwait` or a read from a `signalfd`, is made with [the program's very
//! mask](with_exact_mask), behind which the kernel has them.

use std::sync::atomic::{AtomicBool, Ordering};

use unspool_code_cache::gates::RESTART;
use unspool_kernel::{guarded, race_windows};

use super::pass;
use crate::call::Call;
use crate::call::MASK_SIZE;
use crate::call::waits::SYS_IO_PGETEVENTS;
use crate::process::Process;
use crate::signal_handling::{deliver, open, settle, shared};
use crate::signals::{STOP, SYNCHRONOUS, bit, directed, set_exact_mask};
use crate::thread::Thread;

const FAULT: i64 = -(libc::EFAULT as i64);
const INTERRUPTED: i64 = -(libc::EINTR as i64);

/// `rt_sigpending`.
pub(super) fn pending(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    let result = pass(process, call);
    thread.collect_signals();
    let kept = thread.delivery.pending() | shared::kinds() & thread.delivery.mask();
    let [set, size, ..] = call.arguments;
    if result != 0 || kept == 0 || size > MASK_SIZE {
        return result;
    }
    let mut bytes = [0; MASK_SIZE as usize];
    let bytes = &mut bytes[..size as usize];
    if !guarded::read(set, bytes) {
        return FAULT;
    }
    for (byte, kept) in bytes.iter_mut().zip(kept.to_le_bytes()) {
        *byte |= kept;
    }
    if guarded::write(set, bytes) { 0 } else { FAULT }
}

/// `rt_sigtimedwait`.
pub(super) fn wait_for(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    let [set_at, info, timeout, size, ..] = call.arguments;
    let (MASK_SIZE, Some(set)) = (size, guarded::read_word(set_at)) else {
        return pass(process, call);
    };
    thread.collect_signals();
    shared::take(thread, set);
    if let Some(signal) = thread.delivery.remove(set) {
        let bytes: Vec<u8> = signal
            .info
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        if info != 0 && !guarded::write(info, &bytes) {
            return FAULT;
        }
        return i64::from(signal.number);
    }
    // The engine's own requests are not the program's to take.
    let set = set & !bit(STOP);
    let call = Call {
        number: call.number,
        arguments: [&raw const set as u64, info, timeout, size, 0, 0],
    };
    with_exact_mask(process, thread, &call, set)
}

/// Whether some `signalfd` reports signals that the engine cannot block.
static ARE_READ: AtomicBool = AtomicBool::new(false);

/// `signalfd` and `signalfd4`.
pub(super) fn watch(process: &Process, call: &Call) -> i64 {
    let set = guarded::read_word(call.arguments[1]);
    let result = pass(process, call);
    if result >= 0 && set.is_some_and(|set| set & SYNCHRONOUS != 0) {
        ARE_READ.store(true, Ordering::Relaxed);
    }
    result
}

/// Whether a system call may take signals from a `signalfd`, or wait for it, that the thread
/// keeps.
pub(super) fn may_read_signals(thread: &Thread, call: &Call) -> bool {
    ARE_READ.load(Ordering::Relaxed)
        && thread.delivery.mask() & SYNCHRONOUS != 0
        && matches!(
            call.number as i64,
            libc::SYS_read
                | libc::SYS_readv
                | libc::SYS_poll
                | libc::SYS_select
                | libc::SYS_epoll_wait
                | libc::SYS_io_uring_enter
        )
}

/// Makes a system call with the program's mask in the kernel, signals of faults included. No
/// instruction of the gate can fault: what is blocked then was sent.
///
/// `awaited`: what the call may take or be interrupted by although the program blocks it.
pub(super) fn with_exact_mask(
    process: &Process,
    thread: &mut Thread,
    call: &Call,
    awaited: u64,
) -> i64 {
    if thread.delivery.mask() & SYNCHRONOUS == 0 {
        return pass(process, call);
    }
    if thread.is_pending() {
        return RESTART;
    }
    let blocked = thread.delivery.mask() & SYNCHRONOUS;
    thread.held.await_signals(blocked & awaited);
    race_windows::widen();
    shared::take(thread, blocked & awaited);
    set_exact_mask(thread.delivery.mask() & !bit(STOP));
    let directed = deliver::give_back(thread, blocked);
    let rest = process.clients.rest();
    // SAFETY: the call is the program's own, and leaves the engine alone.
    let result = unsafe { process.gates.call_kernel(call.number, &call.arguments) };
    drop(rest);
    if directed != 0 {
        // What the call has not taken comes back, and no siginfo says for whom it is.
        let still_there = directed & directed::pending_for_thread();
        thread.held.expect_directed(still_there);
    }
    set_exact_mask(!SYNCHRONOUS);
    thread.held.await_signals(0);
    settle(thread);
    open(thread);
    result
}

/// `rt_sigsuspend`, `ppoll` and their kin: the kernel waits with the call's mask, which stays in
/// force until a handler is entered that has interrupted the wait.
pub(super) fn wait_with_mask(
    process: &Process,
    thread: &mut Thread,
    call: &Call,
    (mask, place): (u64, usize),
) -> i64 {
    // The engine must be able to interrupt the wait.
    let kernel_mask = mask & !bit(STOP);
    let pair = [&raw const kernel_mask as u64, MASK_SIZE];
    let mut call = *call;
    call.arguments[place] = match call.number as i64 {
        libc::SYS_pselect6 | SYS_IO_PGETEVENTS => &raw const pair as u64,
        _ => &raw const kernel_mask as u64,
    };
    let read = match ARE_READ.load(Ordering::Relaxed) {
        true => !0,
        false => 0,
    };
    let result = with_exact_mask(process, thread, &call, !mask | read);
    if result == RESTART {
        return RESTART;
    }
    thread.collect_signals();
    thread.delivery.begin_wait(mask);
    thread.delivery.end_wait(result == INTERRUPTED);
    settle(thread);
    result
}
