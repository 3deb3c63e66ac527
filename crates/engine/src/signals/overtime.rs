//! How long a signal of the program's has waited for a function of a tool to return.
//!
//! A thread gets the program's signals behind the tool's function that it is in. One that never
//! returns would have the program outlive what its user ends programs with. So a timer of the
//! kernel's begins when such a signal comes there, and ends when the thread takes the signal.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use super::{STOP, code};

/// Marks the STOP signal that the timer sends.
const OVERTIME: u64 = 0x756e_7370_6f6f_6c74;

/// How long a function of a tool may keep a signal from the program, in seconds.
pub const PATIENCE_S: i64 = 10;

/// How long afterwards it is waited for a moment at which the function gets no memory.
const GRACE_S: i64 = 1;

/// What people and their tools end programs with.
const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The thread whose function is overdue, in the upper half, and the signal that waits; 0 if there is none.
pub(crate) static OVERDUE: AtomicU64 = AtomicU64::new(0);

/// A thread's timer.
#[derive(Debug, Default)]
pub(crate) struct Overtime {
    /// The kernel's number of it, and 1; 0 if there is none.
    timer: AtomicI32,
    /// The signal that waits.
    signal: AtomicI32,
    /// The process that has the timer: its children do not have it.
    process: AtomicI32,
    /// Whether it has run out.
    has_run_out: AtomicBool,
}

impl Overtime {
    /// A signal that [is to end](is_ending) the program has come to the calling thread in a function of a
    /// tool. Returns whether a timer has begun for it. For signal handlers.
    pub(crate) fn begin(&self, signal: i32) -> bool {
        if self.timer.load(Ordering::Relaxed) != 0 {
            return false;
        }
        // SAFETY: the calls have no effect but what they return.
        let (own, process) = unsafe { (libc::gettid(), libc::getpid()) };
        let timer = set_timer(STOP, Some(own), PATIENCE_S);
        if let Some(timer) = timer {
            self.signal.store(signal, Ordering::Relaxed);
            self.process.store(process, Ordering::Relaxed);
            self.has_run_out.store(false, Ordering::Relaxed);
            self.timer.store(timer + 1, Ordering::Relaxed);
        }
        timer.is_some()
    }

    /// The thread takes its signals.
    pub(crate) fn end(&self) {
        let timer = self.timer.swap(0, Ordering::Relaxed);
        if timer != 0 {
            OVERDUE.store(0, Ordering::Relaxed);
        }
        // SAFETY: the call has no effect but what it returns.
        if timer != 0 && self.process.load(Ordering::Relaxed) == unsafe { libc::getpid() } {
            // SAFETY: the timer is this thread's own.
            unsafe { libc::syscall(libc::SYS_timer_delete, timer - 1) };
        }
    }

    /// The timer has run out; it does so again after a while. Returns whether it had before.
    pub(crate) fn runs_out(&self) -> bool {
        self.has_run_out.swap(true, Ordering::Relaxed)
    }

    /// The signal for which the timer runs.
    pub(crate) fn signal(&self) -> Option<i32> {
        let runs = self.timer.load(Ordering::Relaxed) != 0;
        runs.then(|| self.signal.load(Ordering::Relaxed))
    }
}

/// Whether a signal is one with which programs are ended.
pub fn is_ending(signal: i32) -> bool {
    ENDING.contains(&signal)
}

/// Whether a signal says that the time is over.
pub(crate) fn is_over(signal: i32, info: &[u64; 16]) -> bool {
    signal == STOP && code(info) == libc::SI_TIMER && info[3] == OVERTIME
}

/// Has the kernel send a signal, to a thread or the process, in so many seconds, and again and again
/// afterwards. Returns the timer's number.
pub(crate) fn set_timer(signal: i32, thread: Option<i32>, seconds: i64) -> Option<i32> {
    let span = |seconds| libc::timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    let time = libc::itimerspec {
        it_interval: span(GRACE_S),
        it_value: span(seconds),
    };
    let mut timer = -1_i32;
    // SAFETY: the kernel reads an event, for which zeros are allowed, writes a timer's number, and
    // reads a time.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        if let Some(thread) = thread {
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_notify_thread_id = thread;
        }
        event.sigev_signo = signal;
        event.sigev_value.sival_ptr = OVERTIME as *mut libc::c_void;
        let clock = libc::CLOCK_MONOTONIC;
        let (event, place) = (&raw mut event, &raw mut timer);
        if libc::syscall(libc::SYS_timer_create, clock, event, place) != 0 {
            return None;
        }
        let old = std::ptr::null_mut::<libc::itimerspec>();
        libc::syscall(libc::SYS_timer_settime, timer, 0, &raw const time, old);
    }
    Some(timer)
}
