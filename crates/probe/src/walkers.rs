//! Who walks: what a walk needs is made beforehand, and lent to one thread at a time.
//!
//! Nothing is locked: a thread that a signal handler never returns to keeps what it has, and the
//! others go on with the rest.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use crate::inside::thread_pointer;
use crate::walker::Walker;

/// How many threads walk at the same time.
const WALKERS: usize = 8;
/// How long a thread waits: all are lost then, for a walk takes microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Those that nobody uses.
static IDLE: [AtomicPtr<Walker>; WALKERS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; WALKERS];

/// Makes those that are missing. To be called while no other thread is walking.
pub(crate) fn fill() {
    for place in &IDLE {
        if place.load(Ordering::Acquire).is_null() {
            place.store(Box::into_raw(Box::new(Walker::new())), Ordering::Release);
        }
    }
}

/// Has a function use one that no other thread is using. None if none comes back.
pub(crate) fn with<R>(walk: impl FnOnce(&mut Walker) -> R) -> Option<R> {
    lend(PATIENCE, walk)
}

fn lend<R>(patience: Duration, walk: impl FnOnce(&mut Walker) -> R) -> Option<R> {
    // Each thread begins at a place of its own if it can, where its own frames have been met. The
    // control blocks of threads are a stack apart, and the page in front of it.
    let first = (thread_pointer() >> 12) as usize;
    let mut since = None;
    loop {
        for number in 0..WALKERS {
            let place = &IDLE[first.wrapping_add(number) % WALKERS];
            let taken = place.swap(std::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: it came from a box, and nobody else has it.
            let Some(walker) = (unsafe { taken.as_mut() }) else {
                continue;
            };
            let result = walk(walker);
            give_back(first.wrapping_add(number), taken);
            return Some(result);
        }
        if since.get_or_insert_with(Instant::now).elapsed() > patience {
            return None;
        }
        std::thread::yield_now();
    }
}

/// There may be no place for it where the thread forked in a handler that interrupted its walk.
fn give_back(first: usize, walker: *mut Walker) {
    for number in 0..WALKERS {
        let place = &IDLE[first.wrapping_add(number) % WALKERS];
        let null = std::ptr::null_mut();
        let given = place.compare_exchange(null, walker, Ordering::AcqRel, Ordering::Relaxed);
        if given.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many can be had, each while the thread has all before it.
    fn available() -> usize {
        lend(Duration::ZERO, |_| 1 + available()).unwrap_or(0)
    }

    #[test]
    fn each_is_lent_once_and_comes_back() {
        assert_eq!(available(), 0);
        fill();
        assert_eq!((available(), available()), (WALKERS, WALKERS));
        // A child of a thread that has one makes another in its place, and loses none.
        assert_eq!(with(|_| available()), Some(WALKERS - 1));
        with(|_| fill());
        assert_eq!(available(), WALKERS);
    }
}
