//! What the samples of a recording stand for.

use unspool_profile_record::{Event, EventCount, Recording};

/// A time for people.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// What weights are counted in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Events of this kind.
    Events {
        /// What they are.
        event: Event,
        /// How many the kernel has counted in all.
        counted: Option<EventCount>,
    },
}

impl Unit {
    pub(crate) fn of(recording: &Recording) -> Unit {
        let number = recording.sampled_event;
        match number.and_then(|number| recording.events.get(&number)) {
            None => Unit::Time,
            Some(recorded) => Unit::Events {
                event: recorded.event.clone(),
                counted: recorded.counted,
            },
        }
    }

    /// What the events are called, if it is no time.
    #[must_use]
    pub fn event(&self) -> Option<&str> {
        match self {
            Unit::Time => None,
            Unit::Events { event, .. } => Some(&event.name),
        }
    }

    /// A weight for people.
    pub(crate) fn told(&self, weight: u64) -> String {
        match self {
            Unit::Time => seconds(weight),
            Unit::Events { .. } => weight.to_string(),
        }
    }

    /// A weight for programs: in seconds, or as a number of events.
    pub(crate) fn number(&self, weight: f64) -> f64 {
        match self {
            Unit::Time => weight / 1e9,
            Unit::Events { .. } => weight,
        }
    }

    /// What the heading of a column of weights in functions is.
    pub(crate) fn self_heading(&self) -> &'static str {
        match self {
            Unit::Time => "self time",
            Unit::Events { .. } => "   events",
        }
    }
}
