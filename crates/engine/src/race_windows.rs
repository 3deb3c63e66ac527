//! The places at which another thread, or a signal, may come between two steps that belong
//! together. Tests make them wide: where `UNSPOOL_WIDEN_RACES` is set to a number, a thread that
//! passes one sometimes gives its processor away or sleeps there, as the number and the order of
//! passing decide, so that what happens once in a million runs happens in some.

use std::sync::atomic::{AtomicU64, Ordering};

const VARIABLE: &str = "UNSPOOL_WIDEN_RACES";

/// The number that decides next; 0: nothing is widened.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Looks whether windows are to be widened in this process.
pub(crate) fn settle() {
    let wish = std::env::var(VARIABLE).ok();
    let seed = wish.and_then(|seed| seed.parse::<u64>().ok());
    NEXT.store(seed.map_or(0, |seed| seed | 1), Ordering::Relaxed);
}

/// A window. May be called wherever the engine runs, also in handlers and behind gates: it takes no
/// lock, allocates nothing, and leaves `errno` and vector registers alone.
#[inline]
pub(crate) fn widen() {
    if NEXT.load(Ordering::Relaxed) != 0 {
        perhaps_wait();
    }
}

#[cold]
#[inline(never)]
fn perhaps_wait() {
    /// Even, and the seed is odd: the sum is never the number that stands for nothing.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c16;
    let number = NEXT.fetch_add(STEP, Ordering::Relaxed);
    // Seldom for long: a program that a timer interrupts more often than that would not get on.
    match mixed(number) & 127 {
        0 => pause(libc::SYS_nanosleep, &raw const LONG),
        1..4 => pause(libc::SYS_nanosleep, &raw const SHORT),
        4..32 => pause(libc::SYS_sched_yield, std::ptr::null()),
        _ => {}
    }
}

static SHORT: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 5_000,
};
static LONG: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 300_000,
};

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A system call that only takes time.
fn pause(number: i64, time: *const libc::timespec) {
    // SAFETY: the kernel reads the time, if there is one, and writes nothing.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => _,
            in("rdi") time,
            in("rsi") 0,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_window_in_four_is_widened() {
        let numbers = (0..4096_u64).map(|n| mixed(n.wrapping_mul(0x9e37_79b9_7f4a_7c16)) & 127);
        let widened = numbers.filter(|&number| number < 32).count();
        assert!((900..1150).contains(&widened), "{widened} of 4096");
    }
}
