//! How the tracer joins a run.

use unspool_events::Order;
use unspool_kernel::layout;
use unspool_loader::LoadedProgram;

use super::native_run::{self, Cost};
use super::plan::{Run, TracePlan};
use super::start_error::TraceError;
use crate::tracer::{Tracer, install};
use unspool_engine::StartError;
use unspool_engine::client::{Client, NewClient};
use unspool_engine::plan::Program;

/// A tracer that makes a trace as the plan says.
#[must_use]
pub fn new_tracer(plan: TracePlan) -> Box<dyn NewClient> {
    Box::new(NewTracer(plan))
}

struct NewTracer(TracePlan);

impl NewClient for NewTracer {
    fn before(&mut self, program: &Program) -> Result<(), StartError> {
        let native = match self.0.measure_slowdown {
            true => native_run::run(program).map_err(TraceError::from)?,
            false => Cost::default(),
        };
        begin_run(&mut self.0.run, native);
        Ok(())
    }

    fn join(
        self: Box<Self>,
        program: &Program,
        loaded: &LoadedProgram,
    ) -> Result<Option<&'static dyn Client>, StartError> {
        if self.0.order == Order::LineAtomic {
            check_room_for_owners(loaded)?;
        }
        let tracer = Tracer::new(&self.0, program, loaded)?;
        Ok(Some(install(tracer)))
    }
}

/// Notes when the run begins, unless it has begun before.
fn begin_run(run: &mut Run, native: Cost) {
    if run.started_unix_ns != 0 {
        return;
    }
    *run = Run {
        first_process: true,
        started_unix_ns: native_run::now_unix_ns(),
        started_ns: native_run::now_ns(),
        processor_before_ns: native_run::processor_time_ns(),
        native_processor_ns: native.processor.as_nanos() as u64,
        native_wall_ns: native.wall.as_nanos() as u64,
    };
}

/// Whether owner words lie where the program has nothing.
fn check_room_for_owners(loaded: &LoadedProgram) -> Result<(), TraceError> {
    if loaded.sanitizers.address {
        return Err(TraceError::ShadowMemory("address"));
    }
    if loaded.sanitizers.memory {
        return Err(TraceError::ShadowMemory("memory"));
    }
    if !layout::has_tables() {
        return Err(TraceError::NoPlaceForOwners);
    }
    Ok(())
}
