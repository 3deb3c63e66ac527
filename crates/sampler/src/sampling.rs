//! When, how often and how much is looked at.

use std::time::Duration;

use unspool_profile_record::{Event, Settings, Source};

use crate::event_choice::EventChoice;

/// How samples are taken.
#[derive(Debug, Clone)]
pub struct Sampling {
    /// Samples in a second of a thread's time.
    pub frequency_hz: u32,
    /// How much of a stack is looked at; a multiple of 8, less than 65,536.
    pub stack_bytes: u32,
    /// Whether it is noted where threads wait, and for how long; by the kernel alone.
    pub off_cpu: bool,
    /// What is sampled beside time; by the kernel alone.
    pub events: Vec<EventChoice>,
    /// Whether samples are kept of what programs say is of interest only.
    pub regions: bool,
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
    pub(crate) fn period_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency_hz.max(1))
    }

    /// What a recording says of the events that are sampled beside time.
    pub(crate) fn recorded_events(&self) -> Vec<Event> {
        let events = (0..).zip(&self.events);
        let recorded = events.map(|(number, choice)| Event {
            number,
            name: choice.name().to_owned(),
            rate: choice.rate(self.frequency_hz),
        });
        recorded.collect()
    }

    /// What a recording says of it.
    pub(crate) fn settings(&self, source: Source, includes_kernel: bool) -> Settings {
        Settings {
            period_ns: self.period_ns(),
            stack_bytes: self.stack_bytes.into(),
            includes_kernel,
            source,
        }
    }
}

impl Window {
    /// When it ends, after the run's start.
    pub(crate) fn end(self) -> Option<Duration> {
        Some(self.delay.saturating_add(self.duration?))
    }
}
