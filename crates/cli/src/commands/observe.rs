//! Where the engine is called.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

use unspool_engine::{NewClient, Plan, Program, StartError};
use unspool_loader::LoadError;
use unspool_tracer::{NativeRunError, TraceError};

use crate::exit_status;
use crate::failure::Failure;
use crate::plan::ObservedProgram;

/// Accesses that a thread keeps where nothing was said.
pub(super) const DEFAULT_BUFFER: u64 = 1 << 15;

/// Has the program debugged, if that is wanted.
pub(crate) fn wait_for_gdb(address: Option<&unspool_debugger::Address>) -> Result<(), Failure> {
    let listening = address.map_or(Ok(()), unspool_debugger::listen);
    listening.map_err(|error| Failure::from(anyhow::Error::from(error)))
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
pub(super) fn start(
    plan: Plan,
    trace: Option<unspool_tracer::TracePlan>,
    program: &Program,
) -> Failure {
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
