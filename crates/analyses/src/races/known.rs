//! What is known of the past at some point of a run: who comes behind it learns that.

use std::sync::{Arc, Mutex, PoisonError};

use super::clock::VectorClock;

/// A point of the run, or several, each of which adds what is known there.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Arc<Mutex<Dated>>);

/// A clock, and how often all clocks have begun anew before.
#[derive(Debug, Default)]
struct Dated {
    generation: u32,
    clock: VectorClock,
}

impl Known {
    /// What this clock covers is known there, too.
    pub(super) fn add(&self, generation: u32, clock: &VectorClock) {
        let mut dated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if dated.generation != generation {
            *dated = Dated {
                generation,
                clock: clock.clone(),
            };
        } else {
            dated.clock.join(clock);
        }
    }

    /// Adds to a clock what is known there.
    pub(super) fn add_to(&self, generation: u32, clock: &mut VectorClock) {
        let dated = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if dated.generation == generation {
            clock.join(&dated.clock);
        }
    }
}
