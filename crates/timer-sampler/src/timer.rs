//! A thread's timer (`timer_create(2)`, with the signal to that thread alone).

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use unspool_sample_slots::header;

use crate::own_signal::SIGNAL;
use crate::slot;

/// What tells our timers from the program's, beside the number of a slot in the lowest 16 bits.
const TAG: u64 = 0x756e_7370_6f6f_0000;

/// The slot that a value of a timer's signal names, if the timer is one of ours.
pub(crate) fn slot_of(value: u64) -> Option<usize> {
    (value & !0xffff == TAG).then_some((value & 0xffff) as usize)
}

/// Makes a timer for a thread, which runs from now on; gives its number.
pub(crate) fn start(tid: u32, slot: usize) -> Option<c_int> {
    let clock = slot::word(header::CLOCK);
    let period_ns = slot::word(header::PERIOD_NS);
    let period = libc::timespec {
        tv_sec: (period_ns / 1_000_000_000) as i64,
        tv_nsec: (period_ns % 1_000_000_000) as i64,
    };
    let setting = libc::itimerspec {
        it_interval: period,
        it_value: period,
    };
    let mut number: c_int = -1;
    // SAFETY: zeros are a value of the structure; all live through the calls. The C library's
    // own functions would allocate.
    let is_running = unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        let value: *mut c_void = std::ptr::without_provenance_mut((TAG | slot as u64) as usize);
        event.sigev_value.sival_ptr = value;
        event.sigev_signo = SIGNAL;
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_notify_thread_id = tid as c_int;
        libc::syscall(
            libc::SYS_timer_create,
            clock,
            &raw const event,
            &raw mut number,
        ) == 0
            && libc::syscall(
                libc::SYS_timer_settime,
                number,
                0,
                &raw const setting,
                null_mut::<libc::itimerspec>(),
            ) == 0
    };
    is_running.then_some(number)
}

/// Ends a timer.
pub(crate) fn stop(number: c_int) {
    // SAFETY: a number of ours.
    unsafe { libc::syscall(libc::SYS_timer_delete, number) };
}
