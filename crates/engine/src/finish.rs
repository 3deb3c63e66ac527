//! How the process ends: in order, by a signal, or because the engine cannot go on.

pub(crate) mod announcement;
pub(crate) mod init;
mod of_thread;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use unspool_instructions::decode::MAX_LENGTH;
use unspool_kernel::ids::Pid;
use unspool_kernel::{diagnostics, guarded, race_windows};

pub(crate) use self::of_thread::{end_thread, leave_beside};
use crate::client::{self, End, Ending};
use crate::process::{Process, ThreadHandle};
use crate::requests::request_stop;
use crate::signals::{self, actions, bit};
use crate::thread::{AddressSpaceRole, Thread};
use crate::threads::{self, leave_list, park, return_to_list};

/// A child that has run on this thread's thread-local memory has gone. One that was killed while it
/// held a lock of the engine's, or was in the allocator, has left what that protects half changed,
/// in the memory that it shared: everything that needs it would wait for ever. To be called before
/// anything else that may need it.
pub(crate) fn end_if_amid_change() {
    if unspool_kernel::lock::is_amid_change() {
        diagnostics::fatal(
            "a child that shared this process's memory was killed while it changed what both share\n\
             help: run it again: the child can only be killed there by SIGKILL, in a short moment",
        );
    }
}

/// An instruction that the engine cannot run.
pub(crate) fn unsupported_instruction(thread: &mut Thread, pc: u64) -> ! {
    let mut bytes = [0; MAX_LENGTH];
    let readable = guarded::read_short(pc, &mut bytes);
    let text = disassemble(&bytes[..readable], pc);
    conclude(thread, Ending::Death(None));
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

/// `exit_group`: all threads stop, what they recorded is kept, and the process ends.
pub(crate) fn end_process(thread: &mut Thread, status: i32) -> ! {
    client::before_end(thread);
    conclude(thread, Ending::Death(None));
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
pub(crate) fn end_by_signal(thread: &mut Thread, signal: i32) -> ! {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel reads one structure.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    die(thread, signal)
}

/// Brings the trace, or what a tool does, to its end: the process is about to die, or to become
/// another program. A child in its parent's memory leaves the list: who is given back.
pub(crate) fn conclude(thread: &mut Thread, ending: Ending) -> Option<ThreadHandle> {
    let process = thread.process;
    match thread.role {
        AddressSpaceRole::VforkChild => return leave_list(process, thread),
        AddressSpaceRole::SharedMemoryChild if !matches!(ending, Ending::Death(_)) => {
            // Should it succeed, the lender of its memory does the rest.
            thread.executing = true;
            return leave_list(process, thread);
        }
        AddressSpaceRole::SharedMemoryChild => {
            leave_beside(process, thread);
            return None;
        }
        AddressSpaceRole::Process if !thread.clients().iter().any(|client| client.concludes()) => {
            let code = &mut *process.code();
            if let Some(persistence) = &mut code.persistence {
                persistence.keep(&code.regions, &code.cache);
            }
            return None;
        }
        AddressSpaceRole::Process => {}
    }
    signals::block_all();
    let _watches: Vec<_> = thread
        .clients()
        .iter()
        .map(|it| it.end_begins(ending))
        .collect();
    while process
        .ending
        .swap(thread.tid.get() as usize, Ordering::AcqRel)
        != 0
    {
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
pub(crate) fn take_back(process: &Process, thread: &mut Thread, left: Option<ThreadHandle>) {
    thread.executing = false;
    return_to_list(process, left);
    if process.is_ending() && thread.role == AddressSpaceRole::Process {
        thread.clients().each(|client| client.goes_on(thread));
        process.ending.store(0, Ordering::Release);
        threads::end_parking();
    }
}

/// Waits until all other threads have parked, for a bounded time.
fn stop_others(process: &Process, thread: &mut Thread) {
    const PATIENCE: Duration = Duration::from_secs(5);
    /// For code of a tool.
    const MUCH_PATIENCE: Duration = Duration::from_secs(60);
    let deadline = Instant::now() + PATIENCE;
    let own = Pid::own();
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
    alive.any(|handle| threads::may_be_in_tool(unsafe { &*handle.thread }))
}

/// Ends the process by a signal, as its default action does, after the trace is safe.
pub(crate) fn die(thread: &mut Thread, signal: i32) -> ! {
    client::before_end(thread);
    conclude(thread, Ending::Death(Some(signal)));
    client::ended(thread, End::Killed(signal));
    actions::reset(signal);
    // SAFETY: the thread and process ids are this thread's.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
    signals::set_exact_mask(!bit(signal));
    // Only a signal that the kernel holds back gets here.
    init::die(signal);
    // SAFETY: ends the process.
    unsafe { libc::_exit(128 + signal) }
}
