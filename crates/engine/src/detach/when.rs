//! When a process lets itself go: after a time, or at the end of a region of interest.

use std::sync::atomic::{AtomicI32, Ordering};

use super::mark;
use crate::annotation::Annotation;
use crate::process::Process;
use crate::requests::{REQUEST, ask_self};
use crate::signals::STOP;
use crate::thread::Thread;

/// The kernel's id of the timer that asks the process to let itself go; -1 for none.
static TIMER: AtomicI32 = AtomicI32::new(-1);

/// Sets the timer, if there is to be one. A forked child has none yet.
pub(super) fn start(process: &Process) {
    TIMER.store(-1, Ordering::Release);
    let deadline = process.plan.let_go.deadline_ns;
    if deadline != 0 {
        set_timer(deadline);
    }
}

/// A timer of the kernel's: no thread of the engine's has to wait for it.
fn set_timer(deadline: u64) {
    const SECOND: u64 = 1_000_000_000;
    let time = libc::itimerspec {
        it_interval: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: libc::timespec {
            tv_sec: (deadline / SECOND) as i64,
            tv_nsec: (deadline % SECOND) as i64,
        },
    };
    // SAFETY: the kernel reads an event, writes a timer's id, and reads a time.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = STOP;
        event.sigev_value.sival_ptr = REQUEST as *mut libc::c_void;
        let mut timer = -1_i32;
        let made = libc::syscall(
            libc::SYS_timer_create,
            libc::CLOCK_MONOTONIC,
            &raw mut event,
            &raw mut timer,
        );
        if made != 0 {
            unspool_kernel::diagnostics::say(
                "unspool: the kernel gives no timer for --detach-after: the process will not be let go by itself",
            );
            return;
        }
        TIMER.store(timer, Ordering::Release);
        let none = std::ptr::null_mut::<libc::itimerspec>();
        libc::syscall(
            libc::SYS_timer_settime,
            timer,
            libc::TIMER_ABSTIME,
            &raw const time,
            none,
        );
    }
}

/// The process is let go: its timer is not the program's.
pub(super) fn forget() {
    let timer = TIMER.swap(-1, Ordering::AcqRel);
    if timer >= 0 {
        // SAFETY: the timer is the engine's.
        unsafe { libc::syscall(libc::SYS_timer_delete, timer) };
    }
}

/// The process is observed from now on, and shows it.
pub(crate) fn begin(process: &Process) {
    mark::show();
    start(process);
}

/// The program has said something of itself.
pub fn annotated(thread: &mut Thread, said: Annotation) {
    thread
        .clients()
        .each(|client| client.annotated(thread, said));
    if thread.process.plan.let_go.at_region_end && said == Annotation::EndRegion {
        ask_self(thread);
    }
}
