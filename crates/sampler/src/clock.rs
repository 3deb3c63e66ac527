//! Times, by the clocks that records have.

/// The time of one of the kernel's clocks.
pub(crate) fn time_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one structure.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A time of the system's monotonic clock, which records have.
pub(crate) fn now_ns() -> u64 {
    time_ns(libc::CLOCK_MONOTONIC)
}
