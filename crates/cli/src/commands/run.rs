//! `unspool run`.

use unspool_engine::Plan;

use super::observe::{observe, wait_for_gdb};
use crate::failure::Failure;
use crate::plan::{Children, RunPlan};

/// Runs the program under the translator. Does not return once the program has started.
pub(crate) fn run(plan: &RunPlan) -> Result<u8, Failure> {
    let engine_plan = Plan {
        leave_children: plan.children == Children::Leave,
        code_cache: plan.code_cache,
        persistent_cache: plan.persistent_cache.clone(),
        let_go: plan.let_go.starting_now(),
        ..Plan::default()
    };
    wait_for_gdb(plan.gdb.as_ref())?;
    observe(engine_plan, None, &plan.observed)
}
