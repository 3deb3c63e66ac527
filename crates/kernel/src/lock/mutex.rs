//! Mutual exclusion.

#![expect(clippy::disallowed_types, reason = "this is what stands for them")]

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use super::own::Hold;

/// A mutex of the engine's (see [`crate::lock`]).
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

/// The mutex is locked as long as this lives.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    // Dropped first: the thread holds the lock until it is free.
    guard: std::sync::MutexGuard<'a, T>,
    mutex: &'a Mutex<T>,
    _hold: Hold,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free, and locks it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let hold = Hold::begin();
        MutexGuard {
            guard: self.0.lock().unwrap_or_else(PoisonError::into_inner),
            mutex: self,
            _hold: hold,
        }
    }

    /// Locks the mutex if that needs no waiting.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let hold = Hold::try_begin()?;
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard {
            guard,
            mutex: self,
            _hold: hold,
        })
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Frees the mutex.
    pub(super) fn release(self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
