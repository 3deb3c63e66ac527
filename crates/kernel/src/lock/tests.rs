//! Locks in a real copy of a process that has more threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Condvar, Mutex, OnceLock, RwLock, exclude_others};

const THREADS: usize = 4;
const FORKS: usize = 100;

/// One lock of each kind, and what they protect.
#[derive(Default)]
struct Shared {
    pair: Mutex<(u64, u64)>,
    list: RwLock<(u64, u64)>,
    changed: Condvar,
    once: [OnceLock<u64>; THREADS],
    over: AtomicBool,
}

impl Shared {
    /// Holds each of the locks for a while, again and again.
    fn use_all(&self, thread: usize) {
        const WHILE: Duration = Duration::from_micros(50);
        self.once[thread].get_or_init(|| {
            std::thread::sleep(WHILE * 50);
            1
        });
        while !self.over.load(Ordering::Relaxed) {
            let mut pair = self.pair.lock();
            pair.0 += 1;
            std::thread::sleep(WHILE);
            // Both at once, in the usual order.
            let mut list = self.list.write();
            list.0 += 1;
            pair.1 += 1;
            list.1 += 1;
            drop(list);
            drop(self.changed.wait_timeout(pair, WHILE));
            self.changed.notify_all();
            drop(self.list.read());
        }
    }

    /// What a child finds: all locks free, and nothing half changed.
    fn is_whole(&self) -> bool {
        let pair = self.pair.lock();
        let list = self.list.write();
        let made = (0..THREADS).all(|thread| *self.once[thread].get_or_init(|| 1) == 1);
        pair.0 == pair.1 && list.0 == list.1 && made
    }
}

/// Forks among threads that hold locks. Returns in how many children something was not as it
/// should be.
fn fork_among_holders(excluding: bool) -> usize {
    let shared = Arc::new(Shared::default());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.use_all(thread))
        })
        .collect();
    let broken = (0..FORKS)
        .filter(|_| !fork_once(&shared, excluding))
        .count();
    shared.over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    broken
}

/// Whether the child finds everything whole. One that does not within a second is ended.
fn fork_once(shared: &Shared, excluding: bool) -> bool {
    let excluded = excluding.then(exclude_others);
    // SAFETY: the child does nothing but use locks.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // Threads that are started here have signals blocked.
        // SAFETY: the process is a copy of its own; all bytes are a set of signals.
        unsafe {
            let mut alarm: libc::sigset_t = std::mem::zeroed();
            libc::sigaddset(&raw mut alarm, libc::SIGALRM);
            libc::sigprocmask(libc::SIG_UNBLOCK, &raw const alarm, std::ptr::null_mut());
            libc::alarm(1);
        }
        if let Some(excluded) = excluded {
            excluded.end_in_child();
        }
        let status = i32::from(!shared.is_whole());
        // SAFETY: ends the process.
        unsafe { libc::_exit(status) };
    }
    drop(excluded);
    let mut status = 0;
    // SAFETY: the kernel writes one number.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

#[test]
fn children_find_locks_free() {
    assert_eq!(fork_among_holders(true), 0);
}

/// Without excluding others it goes wrong, so that the test above can fail.
#[test]
fn children_of_other_forks_do_not() {
    let shared = Arc::new(Shared::default());
    let holder = Arc::clone(&shared);
    let held = shared.pair.lock();
    // Another thread holds a lock at the fork.
    std::thread::scope(|threads| {
        let forks = threads.spawn(move || fork_once(&holder, false));
        assert!(!forks.join().unwrap());
    });
    drop(held);
}

#[test]
fn who_excludes_others_may_take_locks() {
    let lock = Mutex::new(1);
    let excluded = exclude_others();
    *lock.lock() += 1;
    assert!(lock.try_lock().is_some());
    drop(excluded);
    assert_eq!(*lock.lock(), 2);
}

#[test]
#[should_panic(expected = "with a lock in hand")]
fn a_holder_cannot_exclude_others() {
    let lock = Mutex::new(());
    let _held = lock.lock();
    let _excluded = exclude_others();
}

#[test]
fn others_wait_for_a_fork() {
    let lock = Mutex::new(0);
    let excluded = exclude_others();
    std::thread::scope(|threads| {
        assert!(threads.spawn(|| lock.try_lock().is_none()).join().unwrap());
        let waits = threads.spawn(|| *lock.lock() = 1);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        drop(excluded);
        waits.join().unwrap();
    });
    assert_eq!(*lock.lock(), 1);
}
