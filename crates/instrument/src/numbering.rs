//! Things of a tool of which there are few, and each has a number.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers below a limit, each given once.
#[derive(Debug)]
pub(crate) struct Numbering {
    given: AtomicUsize,
    most: usize,
    /// What has them, in the plural.
    things: &'static str,
}

impl Numbering {
    /// None is given yet.
    pub(crate) const fn new(most: usize, things: &'static str) -> Numbering {
        Numbering {
            given: AtomicUsize::new(0),
            most,
            things,
        }
    }

    /// The next one.
    ///
    /// # Panics
    /// If all are given.
    #[track_caller]
    pub(crate) fn next(&self) -> u8 {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        assert!(
            number < self.most,
            "a tool can have {} {}",
            self.most,
            self.things
        );
        number as u8
    }
}
