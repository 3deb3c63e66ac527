//! Many readers, or one writer.

#![expect(clippy::disallowed_types, reason = "this is what stands for them")]

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use super::own::Hold;

/// A reader-writer lock of the engine's (see [`crate::lock`]).
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

/// The lock is locked for reading as long as this lives.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // Dropped first: the thread holds the lock until it is free.
    guard: std::sync::RwLockReadGuard<'a, T>,
    _hold: Hold,
}

/// The lock is locked for writing as long as this lives.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    guard: std::sync::RwLockWriteGuard<'a, T>,
    _hold: Hold,
}

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes, and locks for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let hold = Hold::begin();
        RwLockReadGuard {
            guard: self.0.read().unwrap_or_else(PoisonError::into_inner),
            _hold: hold,
        }
    }

    /// Waits until nobody reads or writes, and locks for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let hold = Hold::begin();
        RwLockWriteGuard {
            guard: self.0.write().unwrap_or_else(PoisonError::into_inner),
            _hold: hold,
        }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
