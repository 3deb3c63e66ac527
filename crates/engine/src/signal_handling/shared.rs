//! Signals of faults that were sent to the process while the thread that got them blocks them.
//!
//! The kernel keeps what is sent to a process until some thread lets it through, and gives it to
//! that one. The engine never blocks these signals, so that the kernel gives them to any thread.
//! One that blocks them, as the program sees it, puts them here; and a thread that lets them
//! through, or waits for them, takes them.
//!
//! None is overlooked: who puts one here does so before it looks at the others' masks, and
//! who changes its mask shows it before it looks here.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_kernel::ids::Pid;
use unspool_kernel::lock::Mutex;
use unspool_kernel::race_windows;

use crate::signals::{SYNCHRONOUS, bit, passed_on};
use crate::thread::{AddressSpaceRole, PendingSignal, Thread};

/// One of each kind at most.
static SIGNALS: Mutex<Vec<PendingSignal>> = Mutex::new(Vec::new());
/// Their kinds.
static KINDS: AtomicU64 = AtomicU64::new(0);

/// The kinds that are pending for the process.
pub(crate) fn kinds() -> u64 {
    KINDS.load(Ordering::SeqCst)
}

/// The thread has shown its mask: what it blocks goes to those that do not, and what it does not
/// block comes to it.
pub(super) fn exchange(thread: &mut Thread) {
    if thread.role != AddressSpaceRole::Process {
        return;
    }
    let blocked = thread.delivery.mask() & SYNCHRONOUS;
    let is_others = |signal: &PendingSignal| {
        bit(signal.number) & blocked != 0 && passed_on::is_for_process(signal)
    };
    while let Some(signal) = thread.delivery.remove_where(is_others) {
        put(signal);
        race_windows::widen();
        interrupt_takers(thread, bit(signal.number));
    }
    take(thread, !thread.delivery.mask());
}

fn put(signal: PendingSignal) {
    let kind = bit(signal.number);
    let mut signals = SIGNALS.lock();
    if kinds() & kind == 0 {
        signals.push(signal);
        KINDS.fetch_or(kind, Ordering::SeqCst);
    }
}

/// Moves signals of these kinds to the thread.
pub(crate) fn take(thread: &mut Thread, wanted: u64) {
    if kinds() & wanted == 0 || thread.role != AddressSpaceRole::Process {
        return;
    }
    let mut signals = SIGNALS.lock();
    let wanted = signals.extract_if(.., |signal| bit(signal.number) & wanted != 0);
    for signal in wanted {
        KINDS.fetch_and(!bit(signal.number), Ordering::SeqCst);
        thread.delivery.take(signal);
    }
}

/// Has all threads look here that let such a signal through or wait for it.
fn interrupt_takers(thread: &Thread, kind: u64) {
    let own = Pid::own();
    let threads = thread.process.threads.lock();
    for handle in threads.iter().filter(|handle| handle.process == own) {
        // SAFETY: the thread lives while it is listed, and the list is locked.
        let takes = unsafe { &(*handle.thread).held }.takes(kind);
        if takes && !std::ptr::eq(handle.thread, thread) {
            crate::requests::request_stop(*handle);
        }
    }
}

/// A forked child does not get what waits for its parent.
pub(crate) fn forget() {
    SIGNALS.lock().clear();
    KINDS.store(0, Ordering::SeqCst);
}
