//! A word that threads of this process wait on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::holders::Word;

/// An atomic word with the kernel's futex calls.
#[derive(Debug)]
pub(super) struct Futex(AtomicU32);

impl Futex {
    pub(super) const fn new() -> Futex {
        Futex(AtomicU32::new(0))
    }

    /// Waits until the word is woken, if it holds `value`; at most so long. It may return early.
    pub(super) fn wait_for(&self, value: u32, time: Option<Duration>) {
        let time = time.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(time.subsec_nanos()),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        self.call(libc::FUTEX_WAIT, value, time);
    }

    fn call(&self, operation: i32, value: u32, time: *const libc::timespec) {
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word lives during the call, and the time is null or valid.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, value, time) };
    }
}

impl Word for Futex {
    fn load(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    #[inline]
    fn add(&self, value: u32) -> u32 {
        self.0.fetch_add(value, Ordering::AcqRel)
    }

    #[inline]
    fn subtract(&self, value: u32) -> u32 {
        self.0.fetch_sub(value, Ordering::AcqRel)
    }

    fn set(&self, bits: u32) -> u32 {
        self.0.fetch_or(bits, Ordering::AcqRel)
    }

    fn clear(&self, bits: u32) {
        self.0.fetch_and(!bits, Ordering::AcqRel);
    }

    fn wait(&self, value: u32) {
        self.wait_for(value, None);
    }

    fn wake_all(&self) {
        self.call(libc::FUTEX_WAKE, i32::MAX as u32, std::ptr::null());
    }
}
