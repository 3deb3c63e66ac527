//! What a thread's signal handler shares with the engine's code that it interrupts.
//!
//! A handler may come between any two instructions of the engine, and find a
//! [`Thread`](crate::thread::Thread) borrowed and half changed. So all that it touches there is
//! this and the slots' word that says that something is pending. Only while the thread is inside
//! the code cache, where nothing of the engine's runs, does the handler use the `Thread` itself.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use unspool_kernel::race_windows;

use super::PendingSignal;
use super::delivery::FIRST_REAL_TIME;
use super::directed::Mailbox;
use super::overtime::Overtime;
use super::{bit, code};

/// As much as can come before the thread looks: one signal that can be blocked, which then is,
/// and of each of the five that never are one in each [`Arrival`].
const ROOM: u32 = 16;

/// How a signal may have come, as far as a handler can tell. Of one kind the kernel keeps one for a
/// thread and one for the process; which of both a timer's is, the thread finds out.
#[derive(PartialEq, Eq)]
enum Arrival {
    ToThread,
    ToProcess,
    ByTimer,
}

impl Arrival {
    fn of(signal: &PendingSignal) -> Arrival {
        match code(&signal.info) {
            _ if signal.is_directed => Arrival::ToThread,
            libc::SI_TKILL => Arrival::ToThread,
            libc::SI_TIMER => Arrival::ByTimer,
            _ => Arrival::ToProcess,
        }
    }
}

/// Signals that the handler has taken from the kernel and the thread has not looked at yet.
///
/// Handler and thread run one at a time, on one processor: the handler interrupts the thread, or
/// another handler, and is over before what it has interrupted goes on.
pub(crate) struct Held {
    places: [UnsafeCell<Option<PendingSignal>>; ROOM as usize],
    /// How many have ever come. A place is reserved before it is filled.
    came: AtomicU32,
    /// How many of them the thread has taken out.
    went: AtomicU32,
    /// The program's mask, for other threads to see.
    mask: AtomicU64,
    /// What the thread waits for in a system call, although it blocks it.
    awaited: AtomicU64,
    /// Whether a signal has interrupted the kernel in a system call of the program's that it would
    /// make again.
    call_begun: AtomicBool,
    /// The kinds of which the kernel keeps one for this thread, given back by it: the first one
    /// that comes is that.
    directed: AtomicU64,
    /// What other threads have queued for this one. No handler touches it outside the cache.
    pub(crate) mailbox: Mailbox,
    /// Whether the step that is being made is one of a tool's code, with an access that the
    /// program's alignment-check flag does not allow.
    pub(crate) misaligned: AtomicBool,
    /// How long the first of them waits for a function of a tool.
    pub(crate) overtime: Overtime,
}

// SAFETY: only the thread that it belongs to and its handlers use the places; the rest is atomic.
unsafe impl Sync for Held {}
// SAFETY: as above.
unsafe impl Send for Held {}

impl Held {
    /// Of a thread with this mask.
    pub(crate) fn new(mask: u64) -> Held {
        Held {
            places: std::array::from_fn(|_| UnsafeCell::new(None)),
            came: AtomicU32::new(0),
            went: AtomicU32::new(0),
            mask: AtomicU64::new(mask),
            awaited: AtomicU64::new(0),
            call_begun: AtomicBool::new(false),
            directed: AtomicU64::new(0),
            mailbox: Mailbox::default(),
            misaligned: AtomicBool::new(false),
            overtime: Overtime::default(),
        }
    }

    /// Takes a signal. Of those below the real-time ones a second one of the same kind that came
    /// the same way is dropped, as the kernel drops it. False: there is no room.
    ///
    /// # Safety
    /// In the thread's own handler only.
    pub(crate) unsafe fn push(&self, mut signal: PendingSignal) -> bool {
        let kind = bit(signal.number);
        signal.is_directed |= self.directed.fetch_and(!kind, Ordering::Relaxed) & kind != 0;
        if signal.number < FIRST_REAL_TIME && self.holds(&signal) {
            return true;
        }
        let place = self.came.fetch_add(1, Ordering::Relaxed);
        if place - self.went.load(Ordering::Relaxed) >= ROOM {
            self.came.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        // SAFETY: the place is free, and reserved for this call.
        unsafe {
            self.places[(place % ROOM) as usize]
                .get()
                .write(Some(signal))
        };
        true
    }

    /// Whether a signal of this kind waits here that came the same way.
    fn holds(&self, signal: &PendingSignal) -> bool {
        let (went, came) = (
            self.went.load(Ordering::Relaxed),
            self.came.load(Ordering::Relaxed),
        );
        (went..came).any(|place| {
            // SAFETY: whoever fills a place is over, or is interrupted by the caller: then the
            // place is still empty, or complete.
            let held = unsafe { &*self.places[(place % ROOM) as usize].get() };
            held.as_ref().is_some_and(|held| {
                held.number == signal.number && Arrival::of(held) == Arrival::of(signal)
            })
        })
    }

    /// The oldest signal.
    ///
    /// # Safety
    /// In the thread itself only.
    pub(crate) unsafe fn pop(&self) -> Option<PendingSignal> {
        if self.is_empty() {
            return None;
        }
        self.overtime.end();
        let place = self.went.load(Ordering::Relaxed);
        race_windows::widen();
        // SAFETY: the handler that has filled the place is over, and none reserves it before the
        // count says that it is free.
        let signal = unsafe { (*self.places[(place % ROOM) as usize].get()).take() };
        self.went.store(place + 1, Ordering::Release);
        race_windows::widen();
        signal
    }

    /// Whether nothing has come.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.came.load(Ordering::Acquire) == self.went.load(Ordering::Relaxed)
    }

    /// The program's mask of this thread.
    #[must_use]
    pub(crate) fn mask(&self) -> u64 {
        self.mask.load(Ordering::SeqCst)
    }

    pub(crate) fn publish(&self, mask: u64) {
        self.mask.store(mask, Ordering::SeqCst);
    }

    /// The kernel keeps signals of these kinds for this thread, which did not come as such.
    pub(crate) fn expect_directed(&self, kinds: u64) {
        self.directed.store(kinds, Ordering::Relaxed);
    }

    /// The thread begins to wait for signals that it blocks, or ends that.
    pub(crate) fn await_signals(&self, set: u64) {
        self.awaited.store(set, Ordering::SeqCst);
    }

    /// The thread is about to make a system call.
    pub(crate) fn forget_call(&self) {
        self.call_begun.store(false, Ordering::Relaxed);
    }

    /// The kernel had begun it.
    pub(crate) fn note_begun_call(&self) {
        self.call_begun.store(true, Ordering::Relaxed);
    }

    /// Whether the call that is to be made again had been begun.
    pub(crate) fn was_call_begun(&self) -> bool {
        self.call_begun.load(Ordering::Relaxed)
    }

    /// Whether the thread lets a signal through or waits for it.
    pub(crate) fn takes(&self, kind: u64) -> bool {
        kind & self.mask() & !self.awaited.load(Ordering::SeqCst) == 0
    }
}
