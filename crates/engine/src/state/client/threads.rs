//! What a client keeps for each thread.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::thread::Thread;

/// The most clients that keep something for threads.
const MOST: usize = 4;
/// No place yet.
const NONE: usize = usize::MAX;

/// How many places are taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// What one client keeps for threads: a static of that client's. Nobody else can get at it.
pub struct PerThread<T> {
    /// Which of a thread's places is the client's.
    place: AtomicUsize,
    kept: PhantomData<fn() -> T>,
}

/// What all clients keep for a thread, each at the place of its [`PerThread`].
#[derive(Default)]
pub struct ClientData([KeptForThread; MOST]);

#[derive(Clone, Copy)]
struct KeptForThread {
    pointer: *mut (),
    /// What frees it with the thread, if that is to be.
    free: Option<unsafe fn(*mut ())>,
}

impl Default for KeptForThread {
    fn default() -> KeptForThread {
        KeptForThread {
            pointer: std::ptr::null_mut(),
            free: None,
        }
    }
}

impl Drop for ClientData {
    fn drop(&mut self) {
        for kept in self.0 {
            if let Some(free) = kept.free {
                // SAFETY: what is to be freed was made for this thread, by whoever gave the function.
                unsafe { free(kept.pointer) };
            }
        }
    }
}

impl<T> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread::new()
    }
}

impl<T> PerThread<T> {
    /// Nothing is kept yet.
    #[must_use]
    pub const fn new() -> PerThread<T> {
        PerThread {
            place: AtomicUsize::new(NONE),
            kept: PhantomData,
        }
    }

    /// What is kept for a thread; null if nothing is.
    #[inline]
    pub fn get(&self, thread: &Thread) -> *mut T {
        match self.place.load(Ordering::Relaxed) {
            NONE => std::ptr::null_mut(),
            place => thread.client_data.0[place].pointer.cast(),
        }
    }

    /// Keeps a pointer for a thread, in place of what it had. It stays the client's.
    pub fn set(&self, thread: &mut Thread, pointer: *mut T) {
        let pointer = pointer.cast();
        thread.client_data.0[self.own_place()] = KeptForThread {
            pointer,
            free: None,
        };
    }

    fn own_place(&self) -> usize {
        let place = self.place.load(Ordering::Relaxed);
        if place != NONE {
            return place;
        }
        let new = TAKEN.fetch_add(1, Ordering::Relaxed);
        assert!(new < MOST, "room for what {MOST} clients keep");
        let taken = self
            .place
            .compare_exchange(NONE, new, Ordering::Relaxed, Ordering::Relaxed);
        taken.map_or_else(|other| other, |_| new)
    }
}

impl<T: Default> PerThread<T> {
    /// What is kept for a thread, which begins as the type's default and ends with the thread.
    pub fn of<'a>(&self, thread: &'a mut Thread) -> &'a mut T {
        /// # Safety
        /// The pointer must come from a box that nobody else has.
        unsafe fn free<T>(pointer: *mut ()) {
            // SAFETY: the caller's.
            drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
        }
        let kept = &mut thread.client_data.0[self.own_place()];
        if kept.pointer.is_null() {
            *kept = KeptForThread {
                pointer: Box::into_raw(Box::<T>::default()).cast(),
                free: Some(free::<T>),
            };
        }
        // SAFETY: it was made here, with this type, and lives as long as the thread.
        unsafe { &mut *kept.pointer.cast() }
    }
}
