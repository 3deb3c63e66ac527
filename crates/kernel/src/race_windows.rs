//! The places at which another thread, or a signal, may come between two steps that belong
//! together. Tests make them wide: where `UNSPOOL_WIDEN_RACES` is set to a number, a thread that
//! passes one sometimes sleeps there, as the number and the order of passing decide, so that what
//! happens once in a million runs happens in some.
//!
//! What that costs is bounded, however busy the machine is: all windows of a process together take
//! half of its time at most, and each of them a sixteenth, so that those that are passed at every
//! lock leave something to the others. Threads sleep, and do not give their processor away: beside
//! eight busy processes on two processors `sched_yield` came back after 51 ms on average, a sleep of
//! 5 µs after 1.6 ms.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw_call::raw_system_call;

const VARIABLE: &str = "UNSPOOL_WIDEN_RACES";

/// What the engine's windows do.
static WINDOWS: Windows = Windows::narrow();

/// Looks whether windows are to be widened in this process.
pub fn settle() {
    let wish = std::env::var(VARIABLE).ok();
    let seed = wish.and_then(|seed| seed.parse::<u64>().ok());
    if let Some(seed) = seed {
        WINDOWS.widen(seed);
    }
}

/// A window. May be called wherever the engine runs, also in handlers and behind gates: it takes no
/// lock, allocates nothing, and leaves `errno` and vector registers alone.
#[inline]
#[track_caller]
pub fn widen() {
    if WINDOWS.are_wide() {
        WINDOWS.pass();
    }
}

/// How many windows are told apart. There are about half as many.
const PLACES: usize = 64;
/// Of the time since the beginning, the part that all windows may take.
const ALL: u64 = 2;
/// The part that one may take.
const EACH: u64 = 16;
/// What counts as time before the beginning: short programs have races, too.
const ADVANCE_NS: u64 = 10_000_000;

struct Windows {
    /// The number that decides next; 0: nothing is widened.
    next: AtomicU64,
    began_ns: AtomicU64,
    waited_ns: AtomicU64,
    waited_ns_at: [AtomicU64; PLACES],
}

impl Windows {
    const fn narrow() -> Windows {
        Windows {
            next: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waited_ns_at: [const { AtomicU64::new(0) }; PLACES],
        }
    }

    fn widen(&self, seed: u64) {
        self.began_ns.store(now_ns(), Ordering::Relaxed);
        self.next.store(seed | 1, Ordering::Relaxed);
    }

    fn are_wide(&self) -> bool {
        self.next.load(Ordering::Relaxed) != 0
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn pass(&self) {
        let Some(time) = self.next_wait() else { return };
        let waited_here = &self.waited_ns_at[place(Location::caller())];
        let before = now_ns();
        let elapsed = before - self.began_ns.load(Ordering::Relaxed) + ADVANCE_NS;
        let is_over = |waited: &AtomicU64, part| waited.load(Ordering::Relaxed) > elapsed / part;
        if is_over(waited_here, EACH) || is_over(&self.waited_ns, ALL) {
            return;
        }
        let nanosleep = [&raw const *time as u64, 0, 0, 0, 0];
        // SAFETY: the kernel reads the time, and writes nothing.
        unsafe { raw_system_call(libc::SYS_nanosleep, nanosleep) };
        let waited = now_ns() - before;
        waited_here.fetch_add(waited, Ordering::Relaxed);
        self.waited_ns.fetch_add(waited, Ordering::Relaxed);
    }

    /// How long to wait at the window that is passed now.
    fn next_wait(&self) -> Option<&'static libc::timespec> {
        /// Even, and the seed is odd: the sum is never the number that stands for nothing.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c16;
        let number = self.next.fetch_add(STEP, Ordering::Relaxed);
        // Seldom for long: a program that a timer interrupts more often than that would not get on.
        match mixed(number) & 127 {
            0 => Some(&LONG),
            1..32 => Some(&SHORT),
            _ => None,
        }
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

/// Which of the places a window is.
fn place(caller: &'static Location<'static>) -> usize {
    let address = std::ptr::from_ref(caller).addr() as u64;
    (mixed(address) % PLACES as u64) as usize
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock = [libc::CLOCK_MONOTONIC as u64, &raw mut now as u64, 0, 0, 0];
    // SAFETY: the kernel writes the time.
    unsafe { raw_system_call(libc::SYS_clock_gettime, clock) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests;
