//! The clock that everything is measured by.

use std::sync::atomic::{AtomicBool, Ordering};

static PROCESSOR_CLOCK: AtomicBool = AtomicBool::new(false);

/// Chooses the clock. The processor's is cheaper, and as good where the kernel itself
/// measures time by it: then it runs at one rate on all processors.
pub(crate) fn choose() {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let trusted = std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc");
    PROCESSOR_CLOCK.store(trusted, Ordering::Relaxed);
}

/// Whether ticks are the processor's.
pub(crate) fn is_processor_clock() -> bool {
    PROCESSOR_CLOCK.load(Ordering::Relaxed)
}

/// Now, in ticks.
#[inline]
pub(crate) fn now() -> u64 {
    if PROCESSOR_CLOCK.load(Ordering::Relaxed) {
        // SAFETY: every x86-64 processor has the counter, and the kernel uses it itself.
        unsafe { core::arch::x86_64::_rdtsc() }
    } else {
        monotonic_ns()
    }
}

/// Now, by the system's monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
