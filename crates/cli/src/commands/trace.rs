//! `unspool trace`.

use std::io::IsTerminal;
use std::path::PathBuf;

use unspool_engine::Plan;
use unspool_tracer::TraceOutput;

use super::live::followed_with_openmp;
use super::observe::{DEFAULT_BUFFER, observe};
use super::tool;
use crate::failure::Failure;
use crate::plan::{Children, TraceDestination, TracePlan};

/// Runs the program under the translator and records it.
pub(crate) fn trace(plan: &TracePlan) -> Result<u8, Failure> {
    let output = match &plan.destination {
        TraceDestination::Discard => TraceOutput::Discard,
        TraceDestination::StandardOutput => TraceOutput::File(PathBuf::from("-")),
        // Children write beside it, wherever the program has gone meanwhile.
        TraceDestination::File(path) => {
            TraceOutput::File(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        }
    };
    let trace = unspool_tracer::TracePlan {
        output,
        order: plan.order,
        registered_only: plan.registered_only,
        functions: plan.functions.clone(),
        functions_with_openmp: plan.openmp.then(followed_with_openmp),
        regions_only: plan.region_only,
        concurrent_only: false,
        granule: plan.granule,
        locks: plan.locks.map_or(0, u64::from),
        buffer: plan.buffer.map_or(DEFAULT_BUFFER, u64::from),
        max_skew: plan.max_skew.unwrap_or(0),
        noise: plan.noise,
        failed_cas: plan.failed_cas,
        strict: plan.strict,
        verify: plan.verify,
        instructions: plan.instructions,
        child: false,
        summary: true,
        progress: std::io::stderr().is_terminal(),
        measure_slowdown: plan.measure_slowdown,
        run: unspool_tracer::plan::Run::default(),
    };
    let leave_children = plan.children == Children::Leave;
    let own_arguments = match &plan.tool {
        Some(tool) => tool::install(tool)?,
        None => Vec::new(),
    };
    observe(
        Plan {
            leave_children,
            own_arguments,
            let_go: plan.let_go.starting_now(),
            code_cache: plan.code_cache,
            ..Plan::default()
        },
        Some(trace),
        &plan.observed,
    )
}
