//! Signals of faults that were queued for one thread.
//!
//! The kernel does not say of a queued signal whether it is for the thread that gets it or for the
//! process, nor of a timer's. Of most signals nobody has to know: the kernel keeps what the program
//! blocks where it was sent to. The signals of faults it gives to the engine at once, and one
//! for the process is for others (`signal_handling::shared`) if the thread blocks it. So
//! - what a thread of the program queues for another one (`rt_tgsigqueueinfo`) goes there past the
//!   kernel, into the other thread's [`Mailbox`];
//! - timers that are for a thread (`SIGEV_THREAD_ID`) are known by their numbers;
//! - what the kernel had again for some time is known by where the kernel kept it
//!   ([`pending_for_thread`]).
//!
//! What another process queues for a thread (`rt_tgsigqueueinfo` with a signal of a fault) counts as
//! sent to the process.

use std::sync::atomic::{AtomicBool, Ordering};

use unspool_kernel::guarded;
use unspool_kernel::lock::Mutex;

use super::PendingSignal;
use super::{SYNCHRONOUS, bit, code};

/// What other threads have queued for a thread, until it looks. One of each kind at most.
#[derive(Default)]
pub(crate) struct Mailbox {
    signals: Mutex<Vec<PendingSignal>>,
    is_any: AtomicBool,
}

impl Mailbox {
    /// For a thread that is then to be brought to look.
    pub(crate) fn put(&self, signal: PendingSignal) {
        let mut signals = self.signals.lock();
        if signals.iter().all(|known| known.number != signal.number) {
            signals.push(signal);
        }
        self.is_any.store(true, Ordering::SeqCst);
    }

    /// What has come.
    pub(crate) fn take(&self) -> Vec<PendingSignal> {
        if !self.is_any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut signals = self.signals.lock();
        self.is_any.store(false, Ordering::SeqCst);
        std::mem::take(&mut *signals)
    }
}

/// The numbers of timers that are for one thread and send it a signal of a fault.
static TIMERS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// The program has made a timer: its description (`struct sigevent`) and number are there.
pub(crate) fn timer_made(description: u64, number_at: u64) {
    let mut number = [0; 4];
    if !guarded::read(number_at, &mut number) {
        return;
    }
    let number = i32::from_ne_bytes(number);
    let mut timers = TIMERS.lock();
    // An earlier timer may have had the number.
    timers.retain(|&known| known != number);
    if is_for_thread(description) {
        timers.push(number);
    }
}

fn is_for_thread(description: u64) -> bool {
    let Some(word) = (description != 0)
        .then(|| guarded::read_word(description.wrapping_add(8)))
        .flatten()
    else {
        return false;
    };
    let (signal, way) = (word as u32 as i32, (word >> 32) as i32);
    let is_of_fault = (1..=64).contains(&signal) && bit(signal) & SYNCHRONOUS != 0;
    way & libc::SIGEV_THREAD_ID != 0 && is_of_fault
}

/// Whether a signal is that of a timer for one thread.
pub(super) fn is_of_thread_timer(info: &[u64; 16]) -> bool {
    let number = info[2] as u32 as i32;
    code(info) == libc::SI_TIMER && TIMERS.lock().contains(&number)
}

/// The signals that the kernel keeps for the calling thread, and not for the process. Only `/proc`
/// says that.
pub(crate) fn pending_for_thread() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let kinds = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    kinds.map_or(0, |kinds| {
        u64::from_str_radix(kinds.trim(), 16).unwrap_or(0)
    })
}

/// A forked child has none of its parent's timers.
pub(crate) fn forget() {
    TIMERS.lock().clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(signal: i32, way: i32) -> [u64; 8] {
        let mut words = [0; 8];
        words[1] = u64::from(signal as u32) | (way as u64) << 32;
        words
    }

    #[test]
    fn only_timers_for_threads_with_signals_of_faults_are_remembered() {
        let made = |number: i32, signal, way| {
            let description = description(signal, way);
            timer_made(description.as_ptr() as u64, &raw const number as u64);
            let mut info = [0; 16];
            info[1] = u64::from(libc::SI_TIMER as u32);
            info[2] = u64::from(number as u32);
            is_of_thread_timer(&info)
        };
        assert!(made(3, libc::SIGTRAP, libc::SIGEV_THREAD_ID));
        assert!(!made(4, libc::SIGUSR1, libc::SIGEV_THREAD_ID));
        assert!(
            !made(3, libc::SIGTRAP, libc::SIGEV_SIGNAL),
            "the number is another timer's now"
        );
        forget();
    }

    #[test]
    fn the_kernel_tells_what_is_for_the_thread() {
        let set = bit(libc::SIGWINCH) | bit(libc::SIGURG);
        let told = std::thread::spawn(move || {
            super::super::set_exact_mask(set);
            let mut info = [0; 16];
            info[1] = u64::from(libc::SI_QUEUE as u32);
            super::super::send_to_itself(libc::SIGWINCH, &info);
            pending_for_thread()
        });
        assert_eq!(told.join().unwrap() & set, bit(libc::SIGWINCH));
    }
}
