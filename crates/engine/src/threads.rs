//! The threads of the process: which there are, which of them are in the code cache, and how they
//! stand still when the process ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::SlotsPart;
use unspool_kernel::race_windows;

use crate::client;
use crate::process::{Process, ThreadHandle};
use crate::signals::{self, bit};
use crate::thread::Thread;

/// What a thread's word holds: it is outside, inside, or inside but in a function of the tool
/// that waits until it can stop the others.
pub(crate) const OUTSIDE: u64 = 0;
pub(crate) const INSIDE: u64 = 1;
pub(crate) const INSIDE_BUT_STOPPED: u64 = 2;

pub(crate) fn inside(thread: &Thread) -> &AtomicU64 {
    &thread.slots().in_cache
}

/// Whether a thread is outside, so that its state is the program's.
pub fn is_outside(thread: &Thread) -> bool {
    inside(thread).load(Ordering::SeqCst) == OUTSIDE
}

/// Whether a thread may be in code of the tool: called by the engine, or by inserted code.
pub fn may_be_in_tool(thread: &Thread) -> bool {
    !is_outside(thread)
        || CallSlots::of(thread.slots())
            .in_tool
            .load(Ordering::Relaxed)
            != 0
}

/// Whether a thread is inside. Its handle must be listed, and the list locked.
pub fn is_inside(handle: &ThreadHandle) -> bool {
    // SAFETY: the thread lives while it is listed.
    !is_outside(unsafe { &*handle.thread })
}

/// Counts ends that were taken back.
static TAKEN_BACK: AtomicU32 = AtomicU32::new(0);

/// The process goes on with this program: whoever has parked goes on.
pub(crate) fn end_parking() {
    TAKEN_BACK.fetch_add(1, Ordering::Release);
    // SAFETY: wakes threads of this process.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            TAKEN_BACK.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

/// The process is ending: this thread keeps what it recorded and waits for the end. Returns only
/// if that is taken back.
pub fn park(thread: &mut Thread) {
    unspool_kernel::lock::assert_none_held("a thread waits for the end of the process");
    let process = thread.process;
    let taken_back = TAKEN_BACK.load(Ordering::Acquire);
    if !process.is_ending() {
        return;
    }
    race_windows::widen();
    let mask = signals::exact_mask();
    signals::block_all();
    client::thread_parks(thread);
    let left = leave_list(process, thread);
    signals::set_exact_mask(!bit(libc::SIGKILL));
    while TAKEN_BACK.load(Ordering::Acquire) == taken_back {
        // SAFETY: waits without touching anything.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                TAKEN_BACK.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                taken_back,
                std::ptr::null::<libc::timespec>(),
            )
        };
    }
    signals::block_all();
    return_to_list(process, left);
    thread
        .clients()
        .each(|client| client.thread_starts_again(thread));
    signals::set_exact_mask(mask);
}

/// Takes a thread off the list of threads that run program code. Returns what was there.
pub(crate) fn leave_list(process: &Process, thread: *const Thread) -> Option<ThreadHandle> {
    let mut threads = process.threads.lock();
    let place = threads
        .iter()
        .position(|handle| std::ptr::eq(handle.thread, thread));
    let left = place.map(|place| threads.remove(place));
    drop(threads);
    if let Some(handle) = left {
        process
            .clients
            .each(|client| client.thread_gone(handle.tid));
    }
    left
}

/// Undoes [`leave_list`], for a thread that has left it.
pub(crate) fn return_to_list(process: &Process, left: Option<ThreadHandle>) {
    let Some(handle) = left else { return };
    enlist(&mut process.threads.lock(), handle);
}

/// Lists a thread. One that were listed twice would stay there when it has ended, and be looked at.
pub(crate) fn enlist(threads: &mut Vec<ThreadHandle>, handle: ThreadHandle) {
    let is_same = |other: &ThreadHandle| std::ptr::eq(other.thread, handle.thread);
    assert!(!threads.iter().any(is_same), "a thread is listed once");
    threads.push(handle);
}

#[cfg(test)]
mod tests {
    use unspool_kernel::ids::{Pid, Tid};

    use super::{ThreadHandle, enlist};
    use crate::process::PidNamespace;

    fn handle(number: usize) -> ThreadHandle {
        ThreadHandle {
            tid: Tid::of(number as i32),
            process: Pid::of(1),
            namespace: PidNamespace::OF_PROCESS,
            thread: std::ptr::without_provenance_mut(number),
        }
    }

    #[test]
    fn others_may_have_the_same_ids() {
        let mut threads = vec![handle(64)];
        let other = ThreadHandle {
            tid: Tid::of(64),
            ..handle(128)
        };
        enlist(&mut threads, other);
        assert_eq!(threads.len(), 2);
    }

    #[test]
    #[should_panic(expected = "a thread is listed once")]
    fn a_thread_is_listed_once() {
        let mut threads = vec![handle(64)];
        enlist(&mut threads, handle(64));
    }
}
