//! How a thread of the program ends.

use std::sync::atomic::Ordering;

use unspool_kernel::race_windows;

use super::announcement::announce_end;
use crate::process::{FIRST_THREAD, Process};
use crate::signals::{passed_on, set_exact_mask};
use crate::thread::Thread;
use crate::{client, finish, own_failures, threads};

/// Whether a process that its threads leave one by one ends as the last of them did. Before
/// Linux 6.0 it ended as the first one did.
fn last_thread_decides() -> bool {
    const SINCE: u32 = 6;
    // SAFETY: all fields are arrays of characters.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure.
    unsafe { libc::uname(&raw mut names) };
    let digit = |&letter: &libc::c_char| char::from(letter as u8).to_digit(10);
    let digits = names.release.iter().map_while(digit);
    digits.fold(0, |number, digit| number * 10 + digit) >= SINCE
}

/// Marks a thread's status that is the number of the signal that has killed it alone.
const KILLED: u64 = 1 << 32;

/// Ends a thread of the program. Returns only if others go on.
pub(crate) fn end_thread(process: &Process, thread: &mut Thread, status: i32) {
    crate::signals::block_all();
    let status = match thread.killed_by {
        0 => status as u32 as u64,
        signal => KILLED | signal as u64,
    };
    if thread.id == FIRST_THREAD {
        process.first_status.store(status, Ordering::Release);
    }
    announce_end(thread);
    race_windows::widen();
    if process.thread_count.fetch_sub(1, Ordering::AcqRel) == 1 {
        let status = match last_thread_decides() {
            true => status,
            false => process.first_status.load(Ordering::Acquire),
        };
        if status & KILLED != 0 {
            finish::end_by_signal(thread, status as i32);
        }
        finish::end_process(thread, status as i32);
    }
    client::thread_ends(thread);
    race_windows::widen();
    threads::leave_list(process, thread);
    pass_on_signals(thread);
    Thread::unset_current();
    own_failures::thread_ends();
}

/// A thread ends with signals that it has taken and the program has not had: those for the process
/// go to another thread. It makes no access any more that could fault.
fn pass_on_signals(thread: &mut Thread) {
    set_exact_mask(!0);
    thread.collect_signals();
    while let Some(signal) = thread.delivery.remove_where(passed_on::is_for_process) {
        passed_on::pass_on(signal.number, &signal.info);
    }
}

/// A child that shares its parent's memory and runs beside it is about to exit.
pub(crate) fn leave_beside(process: &Process, thread: &mut Thread) {
    crate::signals::block_all();
    announce_end(thread);
    client::thread_ends(thread);
    threads::leave_list(process, thread);
}
