//! Work whose end no runtime shows: loops with a static schedule as gcc compiles them, work
//! that a program divides itself by thread numbers, and single constructs without a barrier.
//!
//! It lasts until the next construct that cannot stand within it. Once a thread has asked
//! for its number and the number of threads, it knows them for the rest of the region, so
//! that all that follows outside other constructs may be divided work too.

use super::{ConstructKind, Thread};

impl Thread {
    /// The thread asks for its number, in order to divide work.
    pub(crate) fn divide(&mut self, address: u64, now: impl Fn() -> u64) {
        match self.top_kind() {
            Some(ConstructKind::Parallel) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.divides = true;
                }
                self.enter(ConstructKind::Divided, address, 0, now());
            }
            // Another loop follows one without a barrier.
            Some(ConstructKind::Divided) => {
                // SAFETY: nodes are never freed.
                let current = unsafe { &*self.top() }.key.address;
                if current != address {
                    let now = now();
                    self.leave(now);
                    self.enter(ConstructKind::Divided, address, 0, now);
                }
            }
            _ => {}
        }
    }

    /// Whether the thread is in a region and has not divided work yet.
    pub(crate) fn may_start_to_divide(&self) -> bool {
        self.top_kind() == Some(ConstructKind::Parallel)
    }

    /// Whether the thread is in work that lasts until the next construct.
    #[inline]
    pub(crate) fn has_open_work(&self) -> bool {
        matches!(
            self.top_kind(),
            Some(ConstructKind::Divided | ConstructKind::Single)
        )
    }

    /// Ends work that lasts until here.
    #[inline]
    pub(crate) fn end_open_work(&mut self, now: u64) {
        if self.has_open_work() {
            self.leave(now);
        }
    }

    /// After a construct: the thread may divide work again.
    pub(crate) fn resume_open_work(&mut self, address: u64, now: u64) {
        if self.frames.last().is_some_and(|frame| frame.divides) {
            self.enter(ConstructKind::Divided, address, 0, now);
        }
    }
}
