//! How well call paths are known.

use unspool_profile_record::{PathEnd, Recording, StepCertainty};

/// How well call paths are known: counts of unwinds, one for each sample, and of their steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quality {
    /// Unwinds that came to where the thread began.
    pub complete: u64,
    /// Those that came to the end of what was looked at of the stack.
    pub cut_off: u64,
    /// Those that found no caller.
    pub failed: u64,
    /// Samples that had no registers or no stack, as of a process that begins or ends.
    pub without_stack: u64,
    /// Steps to a caller that calls the function.
    pub confirmed: u64,
    /// Steps to a caller that may have called it.
    pub probable: u64,
    /// Steps to what calls nothing.
    pub wrong: u64,
}

impl Quality {
    /// Counts the unwinds of a recording.
    pub(crate) fn of(recording: &Recording) -> Quality {
        let mut quality = Quality::default();
        for sample in &recording.samples {
            let ends = match sample.end {
                PathEnd::Outermost => &mut quality.complete,
                PathEnd::CutOff => &mut quality.cut_off,
                PathEnd::Failed => &mut quality.failed,
                PathEnd::NoStack => &mut quality.without_stack,
            };
            *ends += 1;
            let mut next = sample.node;
            while let Some(node) = next.and_then(|number| recording.nodes.get(&number)) {
                match node.certainty {
                    StepCertainty::Confirmed => quality.confirmed += 1,
                    StepCertainty::Probable => quality.probable += 1,
                    StepCertainty::Wrong => quality.wrong += 1,
                    StepCertainty::NoCall => {}
                }
                next = node.parent;
            }
        }
        quality
    }

    /// The share of unwinds that found no caller, or a wrong one somewhere.
    #[must_use]
    pub fn failure_rate(&self) -> f64 {
        let unwinds = self.complete + self.cut_off + self.failed;
        match unwinds {
            0 => 0.0,
            unwinds => (self.failed + self.wrong) as f64 / unwinds as f64,
        }
    }
}
