//! `unspool run` and `unspool trace`: where the engine is called.

use std::ffi::{CString, OsStr, OsString};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use unspool_engine::{Continuation, NewClient, Plan, Program, StartError};
use unspool_loader::LoadError;
use unspool_tracer::{NativeRunError, TraceError, TraceOutput};

use crate::exit_status;
use crate::failure::Failure;
use crate::plan::{Children, ObservedProgram, RunPlan, TraceDestination, TracePlan};

/// Accesses that a thread keeps where nothing was said.
pub(super) const DEFAULT_BUFFER: u64 = 1 << 15;

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

/// Has the program debugged, if that is wanted.
pub(crate) fn wait_for_gdb(address: Option<&unspool_debugger::Address>) -> Result<(), Failure> {
    let listening = address.map_or(Ok(()), unspool_debugger::listen);
    listening.map_err(|error| Failure::from(anyhow::Error::from(error)))
}

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
        regions_only: plan.region_only,
        granule: plan.granule,
        locks: plan.locks.map_or(0, u64::from),
        buffer: plan.buffer.map_or(DEFAULT_BUFFER, u64::from),
        max_skew: plan.max_skew.unwrap_or(0),
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
        Some(tool) => super::tool::install(tool)?,
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

/// Goes on with a program that an observed one executed, if that is what this process is for.
pub(crate) fn continue_observed(arguments: &[OsString]) -> Option<Failure> {
    let Continuation {
        plan,
        program,
        clients,
    } = unspool_engine::continuation(arguments)?;
    super::tool::continue_tool(&plan);
    let mut trace = clients.iter().find_map(unspool_tracer::TracePlan::decode);
    if let Some(trace) = &mut trace {
        super::live::continue_live(&plan, trace);
    }
    Some(start(plan, trace, &program))
}

/// Finds the program and has the engine run it.
pub(crate) fn observe(
    plan: Plan,
    trace: Option<unspool_tracer::TracePlan>,
    observed: &ObservedProgram,
) -> Result<u8, Failure> {
    let path = unspool_loader::resolve(&observed.program, std::env::var_os("PATH").as_deref())
        .map_err(|error| not_loaded(&error))?;
    let words = std::iter::once(&observed.program).chain(&observed.arguments);
    let arguments = words.map(|word| c_string(word)).collect::<Result<_, _>>()?;
    let program = Program {
        path,
        arguments,
        environment: unspool_engine::environment(),
    };
    Err(start(plan, trace, &program))
}

/// What to do where address space is not to be had.
pub(crate) const MORE_MEMORY: &str =
    "raise the limits on address space and data: ulimit -v unlimited; ulimit -d unlimited";

/// Who takes part in the run: the tracer, the tool and the debugger, as far as there are any.
fn clients(trace: Option<unspool_tracer::TracePlan>) -> Vec<Box<dyn NewClient>> {
    let tool = unspool_instrument::instrumenter(trace.is_some());
    let tracer = trace.map(unspool_tracer::new_tracer).into_iter();
    let all = tracer.chain(tool).chain(unspool_debugger::debugger());
    all.collect()
}

/// Returns only if the program could not be started.
fn start(plan: Plan, trace: Option<unspool_tracer::TracePlan>, program: &Program) -> Failure {
    let Err(error) = unspool_engine::run(plan, program, clients(trace));
    match error {
        StartError::Load(error) => not_loaded(&error),
        error @ (StartError::Reserve(_) | StartError::OwnStack(_)) => {
            Failure::from(anyhow::Error::from(error)).with_help(MORE_MEMORY)
        }
        StartError::Client(error) => match error.downcast() {
            Ok(error) => not_traced(*error),
            Err(error) => Failure::from(anyhow::Error::from_boxed(error)),
        },
        error @ StartError::NoXsave => Failure::from(anyhow::Error::from(error)),
    }
}

fn not_traced(error: TraceError) -> Failure {
    match error {
        TraceError::ShadowMemory(_) | TraceError::NoPlaceForOwners => Failure::new(
            error.to_string(),
        )
        .with_help("ask for another order: --order ticket, --order timestamp or --order none"),
        error @ TraceError::ReserveOwners(_) => Failure::from(anyhow::Error::from(error))
            .with_help(
                "other orders need less: --order ticket, --order timestamp or --order none; \
             or raise the limit on address space: ulimit -v unlimited",
            ),
        TraceError::NativeRun(error @ NativeRunError::Input) => Failure::new(error.to_string())
            .with_help("put the input into a file and add < FILE, or leave --measure-slowdown out"),
        error => Failure::from(anyhow::Error::from(error)),
    }
}

pub(crate) fn not_loaded(error: &LoadError) -> Failure {
    let status = match error.errno() {
        libc::ENOENT => exit_status::NOT_FOUND,
        _ => exit_status::NOT_EXECUTABLE,
    };
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!("\ncaused by: {cause}"));
        source = cause.source();
    }
    let failure = Failure::new(text).with_status(status);
    match error {
        LoadError::AddressInUse { .. } => failure.with_help(
            "unspool needs some addresses below 0x80000000 for itself: \
             build the program position-independent (-fPIE -pie)",
        ),
        _ => failure,
    }
}

pub(crate) fn c_string(word: &OsStr) -> Result<CString, Failure> {
    CString::new(word.as_bytes()).map_err(|_| Failure::new("an argument contains a NUL byte"))
}
