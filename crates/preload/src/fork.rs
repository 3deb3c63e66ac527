//! Forks of the process.
//!
//! A child has only the thread that forked. A lock that another one held at that moment would
//! never be released in it, so that the forking thread takes all locks of a library before, and
//! releases them after, in the parent and in the child.
//!
//! ```
//! use std::sync::{Mutex, MutexGuard};
//! use unspool_preload::fork::{self, HeldAcrossFork, Locks};
//!
//! static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
//!
//! struct AllLocks(MutexGuard<'static, Vec<String>>);
//!
//! impl Locks for AllLocks {
//!     fn held() -> &'static HeldAcrossFork<AllLocks> {
//!         static HELD: HeldAcrossFork<AllLocks> = HeldAcrossFork::new();
//!         &HELD
//!     }
//!
//!     fn take() -> AllLocks {
//!         AllLocks(LINES.lock().unwrap())
//!     }
//!
//!     fn start_child(mut self) {
//!         self.0.clear();
//!     }
//! }
//!
//! fork::hold::<AllLocks>();
//! ```

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};

/// A function that the C library calls when the process forks.
pub type Handler = Option<extern "C" fn()>;

/// Has the C library call functions when the process forks: in the forking thread before it, and
/// in the parent and in the child after it.
pub fn watch(before: Handler, in_parent: Handler, in_child: Handler) {
    unsafe extern "C" {
        fn __register_atfork(
            before: Handler,
            in_parent: Handler,
            in_child: Handler,
            library: *const c_void,
        ) -> c_int;
    }
    // What `pthread_atfork` is in the C library. That one goes with a library, of which it is
    // forgotten when the destructors of the library have run; but other threads may fork after
    // that.
    // SAFETY: the functions return nothing, and the library that they are in stays.
    unsafe { __register_atfork(before, in_parent, in_child, std::ptr::null()) };
}

/// All locks of a library, which its forking thread holds from before a fork until after it.
pub trait Locks: Sized + 'static {
    /// Where they are while they are held: a static of the library's.
    fn held() -> &'static HeldAcrossFork<Self>;

    /// Takes all of them.
    fn take() -> Self;

    /// Begins anew in the child, and releases them.
    fn start_child(self);
}

/// Where [`Locks`] are while they are held.
#[derive(Debug)]
pub struct HeldAcrossFork<L>(UnsafeCell<Option<L>>);

// SAFETY: only the thread that holds the locks uses it.
unsafe impl<L> Sync for HeldAcrossFork<L> {}

impl<L> HeldAcrossFork<L> {
    /// None are held.
    #[must_use]
    pub const fn new() -> HeldAcrossFork<L> {
        HeldAcrossFork(UnsafeCell::new(None))
    }

    /// Takes out what was taken before the fork.
    fn take(&self) -> Option<L> {
        // SAFETY: this thread holds the locks, or is the child's copy of the one that does.
        unsafe { (*self.0.get()).take() }
    }
}

impl<L> Default for HeldAcrossFork<L> {
    fn default() -> HeldAcrossFork<L> {
        HeldAcrossFork::new()
    }
}

/// Has these locks held whenever the process forks.
pub fn hold<L: Locks>() {
    watch(Some(before::<L>), Some(in_parent::<L>), Some(in_child::<L>));
}

extern "C" fn before<L: Locks>() {
    let locks = L::take();
    // SAFETY: this thread holds the locks, so that no other thread is here.
    unsafe { *L::held().0.get() = Some(locks) };
}

extern "C" fn in_parent<L: Locks>() {
    drop(L::held().take());
}

extern "C" fn in_child<L: Locks>() {
    if let Some(locks) = L::held().take() {
        locks.start_child();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, MutexGuard, TryLockError};
    use std::time::Duration;

    use super::*;

    static COUNT: Mutex<u64> = Mutex::new(7);

    struct OneLock(MutexGuard<'static, u64>);

    impl Locks for OneLock {
        fn held() -> &'static HeldAcrossFork<OneLock> {
            static HELD: HeldAcrossFork<OneLock> = HeldAcrossFork::new();
            &HELD
        }

        fn take() -> OneLock {
            OneLock(COUNT.lock().unwrap())
        }

        fn start_child(mut self) {
            *self.0 = 0;
        }
    }

    /// What a child finds: whether the lock is free, and what is behind it.
    fn in_child() -> i32 {
        // SAFETY: the child calls nothing but what is async-signal-safe, and ends.
        match unsafe { libc::fork() } {
            0 => {
                let status = match COUNT.try_lock() {
                    Ok(count) => *count as i32,
                    Err(TryLockError::WouldBlock) => 100,
                    Err(TryLockError::Poisoned(_)) => 101,
                };
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(status) }
            }
            child => {
                let mut status = 0;
                // SAFETY: waits for a child of this test's.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                libc::WEXITSTATUS(status)
            }
        }
    }

    #[test]
    fn a_child_finds_the_locks_free_that_other_threads_hold() {
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        let busy = std::thread::spawn(|| {
            while !IS_DONE.load(Ordering::Relaxed) {
                let held = COUNT.lock().unwrap();
                std::thread::sleep(Duration::from_millis(1));
                drop(held);
                // Else it has the lock again before anyone who waits for it wakes up.
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        // The control: without handlers, some child finds a lock that nobody will release.
        let without: Vec<i32> = (0..50).map(|_| in_child()).collect();
        assert!(without.contains(&100), "{without:?}");
        hold::<OneLock>();
        let with: Vec<i32> = (0..50).map(|_| in_child()).collect();
        IS_DONE.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        assert_eq!(with, vec![0; 50]);
        assert_eq!(*COUNT.lock().unwrap(), 7);
    }
}
