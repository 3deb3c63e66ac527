//! The clock that everything is measured by.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static PROCESSOR_CLOCK: AtomicBool = AtomicBool::new(false);

/// How long it takes to time nothing, in ticks.
static READING_TICKS: AtomicU64 = AtomicU64::new(0);

static START_TICKS: AtomicU64 = AtomicU64::new(0);
static START_NS: AtomicU64 = AtomicU64::new(0);

/// Chooses the clock. The processor's is cheaper, and as good where the kernel itself
/// measures time by it: then it runs at one rate on all processors.
pub fn choose() {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let trusted = std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc");
    PROCESSOR_CLOCK.store(trusted, Ordering::Relaxed);
    let readings = (0..64).map(|_| {
        let before = now();
        now_behind().saturating_sub(before)
    });
    READING_TICKS.store(readings.min().unwrap_or(0), Ordering::Relaxed);
}

/// How long it takes to time nothing, from [`now`] to [`now_behind`], in ticks: all that is timed so
/// appears to be longer by that.
pub fn reading_ticks() -> u64 {
    READING_TICKS.load(Ordering::Relaxed)
}

/// Whether ticks are the processor's.
pub fn is_processor_clock() -> bool {
    PROCESSOR_CLOCK.load(Ordering::Relaxed)
}

/// Now, in ticks.
#[inline]
pub fn now() -> u64 {
    if PROCESSOR_CLOCK.load(Ordering::Relaxed) {
        // SAFETY: every x86-64 processor has the counter, and the kernel uses it itself.
        unsafe { core::arch::x86_64::_rdtsc() }
    } else {
        monotonic_ns()
    }
}

/// Now, in ticks, behind all that was done before. A processor reads its own clock ahead of
/// instructions that still wait for another processor's memory: what is timed to some nanoseconds
/// would appear to take no longer than without that wait.
#[inline]
pub fn now_behind() -> u64 {
    // SAFETY: the instruction only waits for those before it, and every x86-64 processor has it.
    unsafe { core::arch::x86_64::_mm_lfence() };
    now()
}

/// Starts to count time for this process.
pub fn note_start() {
    START_NS.store(monotonic_ns(), Ordering::Relaxed);
    START_TICKS.store(now(), Ordering::Relaxed);
}

/// When that was: in ticks, and by the system's monotonic clock.
pub fn start() -> (u64, u64) {
    (
        START_TICKS.load(Ordering::Relaxed),
        START_NS.load(Ordering::Relaxed),
    )
}

/// How many ticks a nanosecond has, as both clocks have run since the process started; `now_ticks` and
/// `now_ns` are what they show.
pub fn ticks_a_nanosecond(now_ticks: u64, now_ns: u64) -> f64 {
    if !is_processor_clock() {
        return 1.0;
    }
    let (start_ticks, start_ns) = start();
    let ticks = now_ticks.saturating_sub(start_ticks).max(1) as f64;
    ticks / now_ns.saturating_sub(start_ns).max(1) as f64
}

/// So many nanoseconds in ticks, by [`ticks_a_nanosecond`].
pub fn ticks(ns: u64, now_ticks: u64, now_ns: u64) -> u64 {
    (ns as f64 * ticks_a_nanosecond(now_ticks, now_ns)) as u64
}

/// Now, by the system's monotonic clock.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec of this frame.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
