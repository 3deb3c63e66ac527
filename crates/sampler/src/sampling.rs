//! When, how often and how much is looked at.

use std::time::Duration;

/// How samples are taken.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Samples in a second of a thread's time.
    pub frequency_hz: u32,
    /// How much of a stack is looked at; a multiple of 8, less than 65,536.
    pub stack_bytes: u32,
    /// Samples are kept of this part of the run.
    pub window: Window,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// After the run's start.
    pub delay: Duration,
    /// Until the run's end where there is none.
    pub duration: Option<Duration>,
}

impl Sampling {
    pub(crate) fn period_ns(self) -> u64 {
        1_000_000_000 / u64::from(self.frequency_hz.max(1))
    }
}

impl Window {
    /// When it ends, after the run's start.
    pub(crate) fn end(self) -> Option<Duration> {
        Some(self.delay.saturating_add(self.duration?))
    }
}
