//! Counters: each thread adds to its own, and a total is their sum.
//!
//! The first ones lie among the thread's slots, where one instruction reaches them. All
//! others lie in an array of the thread's, found through a slot.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::process::Process;
use crate::slots::{Slots, slots};

/// How many counters lie among the slots.
pub(crate) const FAST_COUNTERS: usize = 512;
/// How many there can be in the array.
const OVERFLOW_COUNTERS: usize = 1 << 22;
/// Bytes of the array.
const OVERFLOW_BYTES: usize = OVERFLOW_COUNTERS * 8;

static NEXT: AtomicU32 = AtomicU32::new(0);
/// What threads counted that have ended.
static ENDED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A 64-bit counter that inserted code adds to, without a call and without contention: every
/// thread has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Counter(u32);

impl Counter {
    /// A new counter, at zero.
    ///
    /// # Panics
    /// If there are more than four million.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Counter {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(
            (number as usize) < FAST_COUNTERS + OVERFLOW_COUNTERS,
            "a tool can have {} counters",
            FAST_COUNTERS + OVERFLOW_COUNTERS
        );
        Counter(number)
    }

    /// The sum over all threads, those that have ended included.
    ///
    /// It is exact as far as it goes: while other threads run, what they are counting just now
    /// may be in it or not.
    #[must_use]
    pub fn total(self) -> u64 {
        let Some(process) = Process::try_get() else {
            return 0;
        };
        let threads = process
            .threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Under the lock of the list, so that no thread is missed or seen twice as it ends.
        let ended = lock().get(self.index()).copied().unwrap_or(0);
        let mut all: Vec<*mut Slots> = threads
            .iter()
            // SAFETY: the thread lives while it is listed, and the list is locked.
            .map(|handle| unsafe { (*handle.thread).slots })
            .collect();
        // A child in its parent's place has its parent's.
        all.sort_unstable();
        all.dedup();
        all.into_iter()
            // SAFETY: as above.
            .map(|slots| unsafe { self.load(slots) })
            .fold(ended, u64::wrapping_add)
    }

    /// What the calling thread has counted.
    #[must_use]
    pub fn of_this_thread(self) -> u64 {
        // SAFETY: the slots are this thread's.
        unsafe { self.load(slots()) }
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// # Safety
    /// The slots must be those of a thread that has not ended.
    unsafe fn load(self, slots: *mut Slots) -> u64 {
        // SAFETY: the caller's.
        unsafe {
            self.place(slots)
                .map_or(0, |place| place.load(Ordering::Relaxed))
        }
    }

    /// # Safety
    /// As for [`Counter::load`].
    unsafe fn place<'a>(self, slots: *mut Slots) -> Option<&'a AtomicU64> {
        // SAFETY: counters are only used atomically, or by their thread's translated code.
        unsafe {
            if self.index() < FAST_COUNTERS {
                let first = (&raw mut (*slots).counters).cast::<u64>();
                return Some(AtomicU64::from_ptr(first.add(self.index())));
            }
            let array = (*slots).more_counters as *mut u64;
            (!array.is_null()).then(|| AtomicU64::from_ptr(array.add(self.index() - FAST_COUNTERS)))
        }
    }

    /// Adds to the calling thread's counter, or takes away.
    pub(crate) fn correct(self, amount: i64) {
        // SAFETY: the slots are this thread's.
        if let Some(place) = unsafe { self.place(slots()) } {
            let value = place.load(Ordering::Relaxed);
            place.store(value.wrapping_add_signed(amount), Ordering::Relaxed);
        }
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<u64>> {
    ENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the calling thread its array.
pub(super) fn prepare() -> io::Result<()> {
    // SAFETY: a new private mapping, which nothing else knows; pages that no counter is on
    // cost nothing.
    let array = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            OVERFLOW_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if array == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the slots are this thread's.
    unsafe { (*slots()).more_counters = array as u64 };
    Ok(())
}

/// Adds what the calling thread counted to what ended threads did. To be called while it is
/// still listed, with the list locked.
pub(super) fn keep() {
    let mut ended = lock();
    let count = NEXT.load(Ordering::Relaxed);
    let room = ended.len().max(count as usize);
    ended.resize(room, 0);
    for number in 0..count {
        let own = Counter(number).of_this_thread();
        let total = &mut ended[number as usize];
        *total = total.wrapping_add(own);
    }
    zero(count);
}

/// Starts anew, in a forked child with a single thread.
pub(super) fn restart() {
    lock().clear();
    zero(NEXT.load(Ordering::Relaxed));
}

fn zero(count: u32) {
    for number in 0..count {
        let counter = Counter(number);
        counter.correct((counter.of_this_thread() as i64).wrapping_neg());
    }
}

/// Gives the calling thread's array back.
pub(super) fn free() {
    // SAFETY: the slots and the array are this thread's, which counts nothing any more.
    unsafe {
        let array = std::mem::take(&mut (*slots()).more_counters);
        libc::munmap(array as *mut libc::c_void, OVERFLOW_BYTES);
    }
}
