//! Waits that a number decides, at places where threads meet: so that they meet in orders in which
//! they seldom would.
//!
//! What that costs is bounded, however busy the machine is: all waits of a process together take
//! half of its time at most, and those of one place a sixteenth, so that places that are passed often
//! leave something to the others. Threads sleep, and do not give their processor away: beside eight
//! busy processes on two processors `sched_yield` came back after 51 ms on average, a sleep of 5 µs
//! after 1.6 ms.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw_call::raw_system_call;

/// How many places are told apart.
const PLACES: usize = 64;
/// Of the time since the beginning, the part that all waits may take.
const ALL: u64 = 2;
/// The part that those at one place may take.
const EACH: u64 = 16;
/// What counts as time before the beginning: short programs have races, too.
const ADVANCE_NS: u64 = 10_000_000;

/// Waits of a process.
#[derive(Debug)]
pub struct RandomWaits {
    /// The number that decides next; 0: nobody waits.
    next: AtomicU64,
    began_ns: AtomicU64,
    waited_ns: AtomicU64,
    waited_ns_at: [AtomicU64; PLACES],
    short: libc::timespec,
    long: libc::timespec,
}

impl RandomWaits {
    /// None until they [begin](RandomWaits::begin): then one in four is short, one in 128 long.
    #[must_use]
    pub const fn none(short_ns: i64, long_ns: i64) -> RandomWaits {
        RandomWaits {
            next: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waited_ns_at: [const { AtomicU64::new(0) }; PLACES],
            short: time(short_ns),
            long: time(long_ns),
        }
    }

    /// From here on a number decides.
    pub fn begin(&self, seed: u64) {
        self.began_ns.store(now_ns(), Ordering::Relaxed);
        self.next.store(seed | 1, Ordering::Relaxed);
    }

    /// Whether anybody may have to wait.
    pub fn have_begun(&self) -> bool {
        self.next.load(Ordering::Relaxed) != 0
    }

    /// Waits where the number and the order of passing decide so. May be called wherever the engine runs,
    /// also in handlers and behind gates: it takes no lock, allocates nothing, and leaves `errno` and
    /// vector registers alone.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub fn pass(&self) {
        self.wait(self.next_wait());
    }

    /// The same where a long wait is wanted as often as none.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub fn pass_long(&self) {
        self.wait((self.next_number() & 1 == 0).then_some(&self.long));
    }

    #[track_caller]
    fn wait(&self, time: Option<&libc::timespec>) {
        let Some(time) = time else { return };
        let waited_here = &self.waited_ns_at[place(Location::caller())];
        let before = now_ns();
        let elapsed = before - self.began_ns.load(Ordering::Relaxed) + ADVANCE_NS;
        let is_over = |waited: &AtomicU64, part| waited.load(Ordering::Relaxed) > elapsed / part;
        if is_over(waited_here, EACH) || is_over(&self.waited_ns, ALL) {
            return;
        }
        // Those of other threads that are going on count, too.
        let planned = time.tv_nsec as u64;
        for waited in [waited_here, &self.waited_ns] {
            waited.fetch_add(planned, Ordering::Relaxed);
        }
        let nanosleep = [&raw const *time as u64, 0, 0, 0, 0];
        // SAFETY: the kernel reads the time, and writes nothing.
        unsafe { raw_system_call(libc::SYS_nanosleep, nanosleep) };
        // A signal ends a wait early.
        let difference = (now_ns() - before).wrapping_sub(planned);
        for waited in [waited_here, &self.waited_ns] {
            waited.fetch_add(difference, Ordering::Relaxed);
        }
    }

    /// How long to wait where one passes now.
    fn next_wait(&self) -> Option<&libc::timespec> {
        match self.next_number() & 127 {
            0 => Some(&self.long),
            1..32 => Some(&self.short),
            _ => None,
        }
    }

    fn next_number(&self) -> u64 {
        /// Even, and the seed is odd: the sum is never the number that stands for nothing.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c16;
        mixed(self.next.fetch_add(STEP, Ordering::Relaxed))
    }
}

const fn time(nanoseconds: i64) -> libc::timespec {
    libc::timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    }
}

/// Which of the places a caller is.
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
