//! Whether a thread sleeps in the kernel, and whether somebody else uses its trace meanwhile.
//!
//! A thread cannot empty its buffer while the kernel has it. So it leaves its trace to the others
//! for as long as a system call takes: [`Sleep::begin`] before it, [`Sleep::end`] behind it.
//! Meanwhile one at a time may [`borrow`](Sleep::borrow) the trace, and a thread that wakes up
//! waits until it has it back. Without a borrower both cost one write to a word of the thread's own.

mod looks;

pub(crate) use self::looks::Looks;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The lowest bits of the word say what the thread does, the others count its sleeps.
const STATE: u32 = 3;
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
/// Somebody else uses the trace.
const LENT: u32 = 2;
/// Likewise, and the thread waits for it.
const AWAITED: u32 = 3;
const ONE_SLEEP: u32 = STATE + 1;

/// The word.
#[derive(Debug, Default)]
pub(super) struct Sleep(AtomicU32);

/// One sleep among those of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nap(u32);

/// The right to use the thread's trace, until this is dropped.
#[derive(Debug)]
pub(super) struct TraceGuard<'a>(&'a Sleep);

impl Sleep {
    /// The thread, which this belongs to, leaves its trace to the others.
    pub(super) fn begin(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(word & STATE, AWAKE, "a thread sleeps once at a time");
        let next = (word & !STATE).wrapping_add(ONE_SLEEP);
        self.0.store(next | ASLEEP, Ordering::Release);
    }

    /// The thread takes its trace back, if it has left it. `look` is called now and then while
    /// somebody else uses it.
    pub(super) fn end(&self, look: impl Fn()) {
        loop {
            let word = self.0.load(Ordering::Relaxed);
            let next = match word & STATE {
                AWAKE => return,
                ASLEEP => word & !STATE | AWAKE,
                _ => word & !STATE | AWAITED,
            };
            let changed = self
                .0
                .compare_exchange(word, next, Ordering::Acquire, Ordering::Relaxed);
            if changed.is_ok() && next & STATE == AWAITED {
                wait(&self.0, next, Duration::from_millis(100));
                look();
            }
        }
    }

    /// The sleep that the thread is in.
    pub(super) fn nap(&self) -> Option<Nap> {
        let word = self.0.load(Ordering::Relaxed);
        (word & STATE == ASLEEP).then_some(Nap(word & !STATE))
    }

    /// Takes the trace of a thread that sleeps, if nobody else has it.
    pub(super) fn borrow(&self) -> Option<TraceGuard<'_>> {
        let word = self.0.load(Ordering::Relaxed);
        let lent = word & !STATE | LENT;
        let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
        let is_taken =
            word & STATE == ASLEEP && self.0.compare_exchange(word, lent, taken, failed).is_ok();
        // Not `then_some`: a loan that was made and dropped would give back what nobody has.
        is_taken.then(|| TraceGuard(self))
    }
}

impl Drop for TraceGuard<'_> {
    fn drop(&mut self) {
        let word = &self.0.0;
        let nap = word.load(Ordering::Relaxed) & !STATE;
        if word.swap(nap | ASLEEP, Ordering::Release) & STATE == AWAITED {
            wake(word);
        }
    }
}

/// Waits until the word is woken, if it holds `value`; at most so long.
pub(super) fn wait(word: &AtomicU32, value: u32, time: Duration) {
    let time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos()),
    };
    // SAFETY: the word and the time live during the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &raw const time,
        )
    };
}

/// Wakes whoever waits for the word.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: waking has no effect on memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use std::cell::UnsafeCell;

    use super::*;

    #[test]
    fn only_a_sleeping_threads_trace_can_be_borrowed_and_by_one() {
        let sleep = Sleep::default();
        assert!(sleep.nap().is_none() && sleep.borrow().is_none());
        sleep.begin();
        let first = sleep.nap();
        let loan = sleep.borrow();
        assert!(first.is_some() && loan.is_some());
        assert!(sleep.borrow().is_none() && sleep.nap().is_none());
        drop(loan);
        assert_eq!(sleep.nap(), first);
        sleep.end(|| ());
        assert!(sleep.nap().is_none() && sleep.borrow().is_none());
        sleep.begin();
        assert_ne!(sleep.nap(), first);
    }

    #[test]
    fn a_thread_that_is_awake_may_take_back_what_it_has() {
        let sleep = Sleep::default();
        sleep.end(|| panic!("nobody has it"));
        sleep.begin();
        sleep.end(|| panic!("nobody has it"));
        sleep.end(|| panic!("nobody has it"));
        assert!(sleep.borrow().is_none());
    }

    /// What a sleep protects, with a count that is only right if there is one user at a time.
    #[derive(Default)]
    struct Protected {
        sleep: Sleep,
        uses: UnsafeCell<u64>,
    }

    // SAFETY: the sleep says who may use the count.
    unsafe impl Sync for Protected {}

    impl Protected {
        fn use_it(&self) {
            // SAFETY: the caller has it.
            unsafe {
                let before = self.uses.get().read_volatile();
                std::hint::spin_loop();
                self.uses.get().write_volatile(before + 1);
            }
        }
    }

    #[test]
    fn owner_and_borrowers_exclude_each_other() {
        const SLEEPS: u64 = 30_000;
        let protected = Protected::default();
        let is_over = AtomicU32::new(0);
        let borrowed = std::thread::scope(|scope| {
            let borrow = || {
                let mut count = 0;
                while is_over.load(Ordering::Relaxed) == 0 {
                    if let Some(_loan) = protected.sleep.borrow() {
                        protected.use_it();
                        count += 1;
                    }
                }
                count
            };
            let borrowers = [scope.spawn(borrow), scope.spawn(borrow)];
            for _ in 0..SLEEPS {
                protected.sleep.begin();
                std::thread::yield_now();
                protected.sleep.end(|| ());
                protected.use_it();
            }
            is_over.store(1, Ordering::Relaxed);
            borrowers
                .map(|it| it.join().expect("no panic"))
                .iter()
                .sum::<u64>()
        });
        // SAFETY: nobody else is left.
        let uses = unsafe { *protected.uses.get() };
        assert_eq!(uses, SLEEPS + borrowed);
        assert!(borrowed > 0, "nobody has borrowed it");
    }
}
