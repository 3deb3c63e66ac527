//! `unspool run` and `unspool trace`: where the engine is called.

use crate::failure::Failure;
use crate::plan::{ObservedProgram, TracePlan};

/// Runs the program under the translator. Does not return once the program has started.
pub(crate) fn run(plan: &ObservedProgram) -> Result<u8, Failure> {
    Err(no_engine(plan))
}

/// Runs the program under the translator and records it.
pub(crate) fn trace(plan: &TracePlan) -> Result<u8, Failure> {
    Err(no_engine(&plan.observed))
}

fn no_engine(plan: &ObservedProgram) -> Failure {
    Failure::new(format!(
        "cannot run {}: this build of unspool has no engine",
        plan.program.display()
    ))
}
