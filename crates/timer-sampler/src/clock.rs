//! Times.

use std::ffi::c_int;

use crate::system_call::system_call;

/// The time of one of the kernel's clocks.
pub(crate) fn time_ns(clock: c_int) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let place = (&raw mut time).addr();
    // SAFETY: the kernel writes one structure of this frame.
    unsafe { system_call(libc::SYS_clock_gettime, [clock as usize, place, 0, 0, 0, 0]) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000) + time.tv_nsec as u64
}

/// A time of the system's monotonic clock, which records have.
pub(crate) fn now_ns() -> u64 {
    time_ns(libc::CLOCK_MONOTONIC)
}
