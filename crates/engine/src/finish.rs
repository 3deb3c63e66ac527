//! How the process ends: in order, by a signal, or because the engine cannot go on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use unspool_kernel::{diagnostics, race_windows};

use crate::client::{self, End};
use crate::process::{Process, ThreadHandle};
use crate::signals::{self, STOP, bit};
use crate::thread::{AddressSpaceRole, Thread};

/// Marks the engine's own STOP signals.
const STOP_REQUEST: u64 = 0x756e_7370_6f6f_6c21;

/// A child that has run on this thread's thread-local memory has gone. One that was killed while it
/// held a lock of the engine's has left what that protects half changed, in the memory that it
/// shared: everything that needs it would wait for ever.
pub(crate) fn end_if_locked() {
    if unspool_kernel::lock::held() != 0 {
        diagnostics::fatal(
            "a child that shared this process's memory was killed while it changed what both share\n\
             help: run it again: the child can only be killed there by SIGKILL, in a short moment",
        );
    }
}

/// An instruction that the engine cannot run.
pub fn unsupported_instruction(thread: &mut Thread, pc: u64) -> ! {
    let mut bytes = [0; 15];
    let readable = (0..=15)
        .rev()
        .find(|&count| unspool_kernel::guarded::read(pc, &mut bytes[..count]))
        .unwrap_or(0);
    let text = disassemble(&bytes[..readable], pc);
    conclude(thread, Ending::Death);
    diagnostics::fatal(&format!(
        "the program's instruction `{text}` at {pc:#x} cannot be run under observation\n\
         help: instructions that load the FS or GS selector, name memory in the GS segment in unusual ways or transfer control \
         between segments are not supported; run the program without unspool"
    ))
}

fn disassemble(bytes: &[u8], pc: u64) -> String {
    use iced_x86::Formatter;
    let mut decoder = iced_x86::Decoder::with_ip(64, bytes, pc, iced_x86::DecoderOptions::NONE);
    let mut text = String::new();
    iced_x86::GasFormatter::new().format(&decoder.decode(), &mut text);
    text
}

/// Marks the question to a thread what it does.
const PLACE_REQUEST: u64 = 0x756e_7370_6f6f_6c3f;

/// Whether a STOP signal asks where in a tool the thread is.
#[must_use]
pub fn is_place_request(info: &[u64; 16]) -> bool {
    info[3] == PLACE_REQUEST
}

/// Asks a thread of this process where in a tool it is.
pub fn ask_place(tid: i32) {
    send_stop(std::process::id() as i32, tid, PLACE_REQUEST);
}

/// Whether a STOP signal is the engine's own.
#[must_use]
pub fn is_stop_request(info: &[u64; 16]) -> bool {
    info[3] == STOP_REQUEST
}

/// `exit_group`: all threads stop, what they recorded is kept, and the process ends.
pub fn end_process(thread: &mut Thread, status: i32) -> ! {
    client::before_end(thread);
    conclude(thread, Ending::Death);
    let all = thread.clients().iter();
    let status = all.fold(status, |status, client| client.final_status(status));
    client::ended(thread, End::Exited(status));
    // SAFETY: ends the process; nothing of the engine's needs a destructor.
    unsafe {
        libc::syscall(libc::SYS_exit_group, status);
        libc::_exit(status)
    }
}

/// The last thread ends, and the process with it, as the kernel kills its first thread: without
/// a core dump.
pub fn end_by_signal(thread: &mut Thread, signal: i32) -> ! {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel reads one structure.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    signals::deliver::die(thread, signal)
}

/// How the program in this process comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The process dies.
    Death,
    /// The process becomes another program, or goes on with this one, and runs natively.
    AnotherProgram,
    /// The process becomes another program, which is observed as this one is.
    ObservedProgram,
}

/// Brings the trace, or what a tool does, to its end: the process is about to die, or to become
/// another program. A child in its parent's memory leaves the list: who is given back.
pub fn conclude(thread: &mut Thread, ending: Ending) -> Option<ThreadHandle> {
    let process = thread.process;
    match thread.role {
        AddressSpaceRole::VforkChild => return leave_list(process, thread),
        AddressSpaceRole::SharedMemoryChild if ending != Ending::Death => {
            // Should it succeed, the lender of its memory does the rest.
            thread.executing = true;
            return leave_list(process, thread);
        }
        AddressSpaceRole::SharedMemoryChild => {
            crate::syscalls::leave_beside(process, thread);
            return None;
        }
        AddressSpaceRole::Process if !thread.clients().iter().any(|client| client.concludes()) => {
            crate::persist::keep(process);
            return None;
        }
        AddressSpaceRole::Process => {}
    }
    signals::block_all();
    let _watches: Vec<_> = thread.clients().iter().map(|it| it.end_begins()).collect();
    while process.ending.swap(thread.tid as usize, Ordering::AcqRel) != 0 {
        // Another thread is already ending the process.
        park(thread);
    }
    stop_others(process, thread);
    race_windows::widen();
    thread
        .clients()
        .each(|client| client.conclude(thread, ending));
    None
}

/// The process does not become another program after all: whoever has parked goes on, and what
/// is recorded from here on goes to a file of its own.
pub fn take_back(process: &Process, thread: &mut Thread, left: Option<ThreadHandle>) {
    thread.executing = false;
    return_to_list(process, left);
    if process.is_ending() && thread.role == AddressSpaceRole::Process {
        thread.clients().each(|client| client.goes_on(thread));
        process.ending.store(0, Ordering::Release);
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
}

/// Counts ends that were taken back.
static TAKEN_BACK: AtomicU32 = AtomicU32::new(0);

/// Waits until all other threads have parked, for a bounded time.
fn stop_others(process: &Process, thread: &mut Thread) {
    const PATIENCE: Duration = Duration::from_secs(5);
    /// For code of a tool.
    const MUCH_PATIENCE: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + PATIENCE;
    let own = std::process::id() as i32;
    // Others may want lines of this thread's before they get to where they can park.
    client::begin_wait(thread);
    loop {
        let waiting = {
            let threads = process.threads.lock();
            threads
                .iter()
                .filter(|handle| !std::ptr::eq(handle.thread, thread) && handle.process == own)
                .copied()
                .collect::<Vec<_>>()
        };
        let now = Instant::now();
        let is_late = now > deadline;
        let is_very_late = now > deadline + MUCH_PATIENCE;
        let wait_on = || waiting.iter().any(|handle| is_in_tool(process, *handle));
        if waiting.is_empty() || is_very_late || is_late && !wait_on() {
            return;
        }
        for handle in waiting {
            request_stop(handle);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Whether a thread, if it is still there, runs code of a tool: that may take its time, and where
/// it blocks, this is found out.
fn is_in_tool(process: &Process, handle: ThreadHandle) -> bool {
    let threads = process.threads.lock();
    let mut alive = threads.iter().filter(|other| other.tid == handle.tid);
    // SAFETY: the thread lives while it is listed, and the list is locked.
    alive.any(|handle| crate::flush::may_be_in_tool(unsafe { &*handle.thread }))
}

/// Asks a thread to come out of the code cache. One in another PID namespace cannot be asked.
pub fn request_stop(handle: ThreadHandle) {
    // SAFETY: the pointer is this thread's own, and null or valid.
    let own = unsafe { Thread::current().as_ref() };
    if handle.namespace != own.map_or(0, |own| own.namespace) {
        return;
    }
    send_stop(handle.process, handle.tid, STOP_REQUEST);
}

fn send_stop(process: i32, tid: i32, what: u64) {
    let mut info = [0_u64; 16];
    info[0] = STOP as u64;
    info[1] = u64::from(libc::SI_QUEUE as u32);
    info[3] = what;
    // SAFETY: `info` is a siginfo of 128 bytes for a queued signal to a process of ours.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            process,
            tid,
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
pub fn leave_list(process: &Process, thread: *const Thread) -> Option<ThreadHandle> {
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
fn return_to_list(process: &Process, left: Option<ThreadHandle>) {
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
    use super::{ThreadHandle, enlist};

    fn handle(number: usize) -> ThreadHandle {
        ThreadHandle {
            tid: number as i32,
            process: 1,
            namespace: 0,
            thread: std::ptr::without_provenance_mut(number),
        }
    }

    #[test]
    fn others_may_have_the_same_ids() {
        let mut threads = vec![handle(64)];
        let other = ThreadHandle {
            tid: 64,
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
