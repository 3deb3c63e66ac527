//! What each thread knows of the locks that it holds.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

use super::futex::Futex;
use super::holders::{Group, Holders};
use crate::race_windows;

/// Threads of different groups do not disturb each other when they take locks.
const GROUPS: usize = 16;

static HOLDERS: Holders<Futex, GROUPS> = Holders([const { Group(Futex::new()) }; GROUPS]);

/// Threads so far that have taken a lock.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How many locks this thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
    /// How many changes of what all threads share it has begun and not finished, of those that no
    /// lock of this kind covers.
    static CHANGES: Cell<u32> = const { Cell::new(0) };
    /// Its group; none before it takes its first lock.
    static GROUP: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[inline]
fn group() -> usize {
    let group = GROUP.get();
    if group < GROUPS {
        return group;
    }
    let group = THREADS.fetch_add(1, Ordering::Relaxed) % GROUPS;
    GROUP.set(group);
    group
}

/// Counts as one lock that the thread holds.
///
/// A signal's handler may come between any two steps of this and take locks itself: the thread
/// is then counted twice for that time.
#[derive(Debug)]
pub(super) struct Hold(PhantomData<*const ()>);

// SAFETY: a reference to it is of no use to any thread.
unsafe impl Sync for Hold {}

impl Hold {
    /// Waits while a fork is under way, unless the thread holds a lock already.
    #[inline]
    pub(super) fn begin() -> Hold {
        let _change = Change::begin();
        let held = HELD.get();
        if held == 0 {
            HOLDERS.begin(group());
            race_windows::widen();
        }
        HELD.set(held + 1);
        Hold(PhantomData)
    }

    /// None where it would wait.
    pub(super) fn try_begin() -> Option<Hold> {
        let _change = Change::begin();
        let held = HELD.get();
        if held == 0 && !HOLDERS.try_begin(group()) {
            return None;
        }
        HELD.set(held + 1);
        Some(Hold(PhantomData))
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        let _change = Change::begin();
        let held = HELD.get() - 1;
        HELD.set(held);
        if held == 0 {
            HOLDERS.end(group());
        }
    }
}

/// The thread changes what all threads share, as long as this lives, without a lock of this kind:
/// these locks themselves, or the allocator's memory.
///
/// Whoever ends the thread meanwhile leaves that half changed.
#[derive(Debug)]
pub struct Change(PhantomData<*const ()>);

impl Change {
    /// Begins one.
    #[inline]
    #[must_use]
    pub fn begin() -> Change {
        CHANGES.set(CHANGES.get() + 1);
        // What comes next must not be moved to before this, nor this be left out.
        compiler_fence(Ordering::SeqCst);
        Change(PhantomData)
    }
}

impl Drop for Change {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        CHANGES.set(CHANGES.get() - 1);
    }
}

/// How many locks the calling thread holds.
pub fn held() -> u32 {
    HELD.get()
}

/// Whether the calling thread, or one that ran in its place and is gone, is amid a change of what
/// all threads share: it holds a lock, or has begun a [`Change`].
pub fn is_amid_change() -> bool {
    HELD.get() != 0 || CHANGES.get() != 0
}

/// The calling thread is about to wait for others, which may need locks for what they do.
pub fn assert_none_held(what: &str) {
    assert!(held() == 0, "{what} with a lock in hand");
}

/// No other thread holds any lock as long as this lives. Its owner may take locks, and gives them
/// back before.
#[derive(Debug)]
pub struct OthersExcluded(PhantomData<*const ()>);

/// Waits until no thread holds any lock. The calling thread must hold none.
pub fn exclude_others() -> OthersExcluded {
    assert_none_held("other threads are kept from locks");
    HOLDERS.exclude();
    race_windows::widen();
    // It holds what stands for all locks, so that it can take each of them.
    HELD.set(1);
    OthersExcluded(PhantomData)
}

impl OthersExcluded {
    /// In a forked child: the others are not there.
    pub fn end_in_child(self) {
        HOLDERS.reset();
        HELD.set(0);
        std::mem::forget(self);
    }
}

impl Drop for OthersExcluded {
    fn drop(&mut self) {
        HELD.set(0);
        HOLDERS.admit();
    }
}
