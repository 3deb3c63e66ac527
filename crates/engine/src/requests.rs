//! What the engine asks of threads by a signal of its own ([`STOP`]): to come out of the code cache,
//! to tell where in a tool they are, and to let the process go.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use unspool_kernel::ids::{Pid, Tid};

use crate::process::{PidNamespace, ThreadHandle};
use crate::signals::{STOP, code};
use crate::thread::{AddressSpaceRole, Thread};

/// Marks the engine's own STOP signals.
const STOP_REQUEST: u64 = 0x756e_7370_6f6f_6c21;

/// Marks the question to a thread what it does.
const PLACE_REQUEST: u64 = 0x756e_7370_6f6f_6c3f;

/// Whether a STOP signal asks where in a tool the thread is.
#[must_use]
pub(crate) fn is_place_request(info: &[u64; 16]) -> bool {
    info[3] == PLACE_REQUEST
}

/// Asks a thread of this process where in a tool it is.
pub fn ask_place(tid: Tid) {
    send_stop(Pid::own(), tid, PLACE_REQUEST);
}

/// Whether a STOP signal is the engine's own.
#[must_use]
pub(crate) fn is_stop_request(info: &[u64; 16]) -> bool {
    info[3] == STOP_REQUEST
}

/// Asks a thread to come out of the code cache. One in another PID namespace cannot be asked.
pub fn request_stop(handle: ThreadHandle) {
    // SAFETY: the pointer is this thread's own, and null or valid.
    let own = unsafe { Thread::current().as_ref() };
    if handle.namespace != own.map_or(PidNamespace::OF_PROCESS, |own| own.namespace) {
        return;
    }
    send_stop(handle.process, handle.tid, STOP_REQUEST);
}

fn send_stop(process: Pid, tid: Tid, what: u64) {
    let mut info = [0_u64; 16];
    info[0] = STOP as u64;
    info[1] = u64::from(libc::SI_QUEUE as u32);
    info[3] = what;
    // SAFETY: `info` is a siginfo of 128 bytes for a queued signal to a process of ours.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            process.get(),
            tid.get(),
            STOP,
            info.as_ptr(),
        );
    }
}

/// Brings all other threads that run translated code out of it for a moment.
pub fn interrupt_others(thread: &Thread) {
    let process = thread.process;
    let threads = process.threads.lock();
    let is_other = |handle: &&ThreadHandle| !std::ptr::eq(handle.thread, thread);
    for handle in threads.iter().filter(is_other) {
        request_stop(*handle);
    }
}

/// Marks the STOP signal by which the process is asked to be let go. Its siginfo holds, if the
/// asker wants an answer, the asker's process id in its fifth word and in its sixth the number of
/// a descriptor there, perhaps with [`STOP_AFTERWARDS`].
pub(crate) const REQUEST: u64 = 0x756e_7370_6f6f_6c2f;
/// The process is to stop itself as soon as it runs natively.
pub(crate) const STOP_AFTERWARDS: u64 = 1 << 32;
/// Marks the SIGCONT by which a stopped process is continued so that it can be let go.
pub(crate) const CONTINUE: u64 = 0x756e_7370_6f6f_6c2b;

/// Whether something has been asked for that was not done yet, and whom to answer, where.
pub(crate) static ASKED: AtomicU32 = AtomicU32::new(0);
pub(crate) static ASKER: AtomicU64 = AtomicU64::new(0);
pub(crate) static ANSWER: AtomicU64 = AtomicU64::new(0);

/// Whether a STOP signal asks for the process to be let go.
#[must_use]
pub(crate) fn is_request(signal: i32, info: &[u64; 16]) -> bool {
    signal == STOP && info[3] == REQUEST
}

/// Whether a signal is an asker's, and nothing else than a SIGCONT that is not the program's.
#[must_use]
pub(crate) fn is_continuation(signal: i32, info: &[u64; 16]) -> bool {
    signal == libc::SIGCONT && info[3] == CONTINUE && code(info) == libc::SI_QUEUE
}

/// Keeps what such a signal asks for. For signal handlers. A child that shares its parent's memory
/// cannot be let go, and does not answer.
pub(crate) fn take_note(role: AddressSpaceRole, info: &[u64; 16]) {
    if role == AddressSpaceRole::Process {
        note_request(info);
    }
}

pub(crate) fn note_request(info: &[u64; 16]) {
    ASKER.store(info[4], Ordering::Release);
    ANSWER.store(info[5], Ordering::Release);
    ASKED.store(1, Ordering::Release);
}

/// Has the thread let the process go at its next safe point.
pub(crate) fn ask_self(thread: &Thread) {
    note_request(&[0; 16]);
    thread.set_pending(true);
}
