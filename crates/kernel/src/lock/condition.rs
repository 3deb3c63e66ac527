//! Waiting for a change of what a mutex protects.

use std::time::Duration;

use super::futex::Futex;
use super::holders::Word;
use super::mutex::MutexGuard;
use super::own::held;

/// A condition variable for a [`Mutex`](super::Mutex). A thread that waits holds no lock, so that
/// a fork does not wait for it, and takes the mutex anew as any other thread does.
#[derive(Debug)]
pub struct Condvar(Futex);

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar(Futex::new())
    }

    /// Waits until somebody notifies, at most so long. It may return early.
    ///
    /// # Panics
    /// If the thread holds another lock.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> MutexGuard<'a, T> {
        assert!(held() == 1, "a thread waits with another lock in hand");
        // Counted before the mutex is free, so that no change behind that goes unnoticed.
        let changes = self.0.load();
        let mutex = guard.release();
        self.0.wait_for(changes, Some(time));
        mutex.lock()
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.add(1);
        self.0.wake_all();
    }
}
