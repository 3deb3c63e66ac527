//! What is made once.

#![expect(clippy::disallowed_types, reason = "this is what stands for them")]

use super::own::Hold;

/// A cell that is filled once. Whoever fills it counts as holding a lock: in a forked child, it is
/// filled or empty.
#[derive(Debug, Default)]
pub struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> OnceLock<T> {
    /// An empty cell.
    #[must_use]
    pub const fn new() -> OnceLock<T> {
        OnceLock(std::sync::OnceLock::new())
    }

    /// What is there, if it is filled.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// Fills it.
    ///
    /// # Errors
    /// Gives the value back if it is filled already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _hold = Hold::begin();
        self.0.set(value)
    }

    /// What is there; it is filled first if need be.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.0.get() {
            return value;
        }
        let _hold = Hold::begin();
        self.0.get_or_init(make)
    }
}
