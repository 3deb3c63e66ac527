//! Running a program under a tool.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use unspool_engine::{Continuation, NewClient, Plan, Program, StartError};
use unspool_instrument::{self as instrument, CallForms};

use crate::adapter::Adapter;
use crate::controller::{Control, InvalidControl};
use crate::tool::Tool;

/// Exit status of a tool that was called wrongly, or whose program cannot be run.
const FAILED: i32 = 125;
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Why a program cannot be run under a tool.
#[derive(Debug)]
enum Failure {
    /// None was named.
    NoProgram,
    /// It was not found, or cannot be loaded.
    Program(unspool_loader::LoadError),
    /// The engine does not start.
    Engine(StartError),
    /// An argument contains a NUL byte.
    Argument(OsString),
    /// gdb cannot connect where it should.
    Address(unspool_debugger::InvalidAddress),
    /// Nobody can wait there.
    Listen(unspool_debugger::ListenError),
    /// What is said of the regions to look at.
    Control(InvalidControl),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::NoProgram => out.write_str(
                "no program to run\nhelp: name it behind --, with its arguments: -- PROGRAM [ARGUMENT]...",
            ),
            Failure::Program(error) => error.fmt(out),
            Failure::Engine(error) => error.fmt(out),
            Failure::Argument(word) => write!(out, "{word:?} contains a NUL byte"),
            Failure::Address(error) => error.fmt(out),
            Failure::Listen(error) => error.fmt(out),
            Failure::Control(error) => write!(out, "--control: {error}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Program(error) => error.source(),
            Failure::Engine(error) => error.source(),
            Failure::Listen(error) => error.source(),
            Failure::NoProgram
            | Failure::Argument(_)
            | Failure::Address(_)
            | Failure::Control(_) => None,
        }
    }
}

impl Failure {
    /// The exit status that says this, as shells do.
    fn exit_status(&self) -> i32 {
        match self {
            Failure::Program(error) | Failure::Engine(StartError::Load(error)) => {
                match error.errno() {
                    libc::ENOENT => NOT_FOUND,
                    _ => NOT_EXECUTABLE,
                }
            }
            _ => FAILED,
        }
    }
}

static OWN_ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// The arguments of the tool itself: those before `--`, without its name. In a process that the
/// program made its own by `execve` they are what they were.
#[must_use]
pub fn arguments() -> &'static [OsString] {
    OWN_ARGUMENTS.get_or_init(|| {
        let words: Vec<_> = std::env::args_os().collect();
        match unspool_engine::continuation(&words) {
            Some(continuation) => without_questions(continuation.plan.own_arguments),
            None => without_questions(without_gdb(split(&words).0).0),
        }
    })
}

/// Says what [`arguments`] gives, for a command that has several tools: before anything asks
/// for them.
pub fn set_arguments(arguments: Vec<OsString>) {
    // Whoever has asked knows them already.
    let _ = OWN_ARGUMENTS.set(arguments);
}

/// What belongs to the tool, and the program with its arguments.
fn split(words: &[OsString]) -> (&[OsString], &[OsString]) {
    let own = words.get(1..).unwrap_or_default();
    match own.iter().position(|word| word == "--") {
        Some(at) => (&own[..at], &own[at + 1..]),
        None => (own, &[]),
    }
}

/// The tool's own arguments without `--gdb ADDRESS`, and the address.
fn without_gdb(own: &[OsString]) -> (Vec<OsString>, Option<OsString>) {
    without_option(own.to_vec(), "--gdb")
}

/// Arguments without an option that has a value, and the value.
fn without_option(mut own: Vec<OsString>, option: &str) -> (Vec<OsString>, Option<OsString>) {
    let value = own.iter().position(|word| word == option).map(|at| {
        let mut taken = own.drain(at..(at + 2).min(own.len()));
        taken.nth(1).unwrap_or_default()
    });
    (own, value)
}

/// What has a tool say how its functions are called.
const INLINING: &str = "--inlining";
/// What says which part of the run a tool is to look at.
const CONTROL: &str = "--control";

/// Without what is asked of us.
fn without_questions(own: Vec<OsString>) -> Vec<OsString> {
    let (mut own, _) = without_option(own, CONTROL);
    own.retain(|word| word != INLINING);
    own
}

static ASKED_CONTROL: OnceLock<Control> = OnceLock::new();

/// Has a tool that is [installed](install) from now on look at a part of the run only, for a command
/// that has several tools: what the tool has inserted is done in regions alone. All else the tool is told
/// as ever. A tool that has versions of code, or a controller, of its own cannot be controlled so.
pub fn set_control(control: Control) {
    let first = ASKED_CONTROL.set(control).is_ok();
    assert!(first, "a run is controlled once");
}

/// The part of the run at which the tool is to look, if one was asked for.
fn set_asked_control(words: &[OsString]) -> Result<(), Failure> {
    let own = match unspool_engine::continuation(words) {
        Some(continuation) => continuation.plan.own_arguments,
        None => without_gdb(split(words).0).0,
    };
    if let (_, Some(asked)) = without_option(own, CONTROL) {
        let control = asked.to_string_lossy().parse();
        set_control(control.map_err(Failure::Control)?);
    }
    Ok(())
}

/// Has it noted how functions are called, if that is asked.
fn note_questions(own: &[OsString]) {
    if own.iter().any(|word| word == INLINING) {
        instrument::note_call_forms();
    }
}

/// Says how the functions of the tool are called, if that was asked.
pub(crate) fn tell_call_forms() {
    for (name, forms) in instrument::call_forms() {
        let CallForms {
            inlined,
            copied,
            called,
            gated,
        } = forms;
        say(&format!(
            "inlining: {name}: inlined at {inlined} places, copied to {copied}, called at {called}, by the gate at {gated}"
        ));
    }
}

/// Runs the program that the command line names behind `--` under the tool. The process ends
/// as the program ends.
///
/// With `--gdb ADDRESS` among the tool's own arguments, which it does not see then, the program
/// waits for gdb before its first instruction: `:PORT` on this machine's loopback interface (`:0`
/// picks one that is free), or the path of a Unix socket, with a slash. Commands of the tool's own
/// ([`Tool::monitor`]) and [`stop`] are for who debugs so.
///
/// With `--inlining`, likewise, each process tells at its end how the tool's functions are called: at
/// how many places each is *inlined*, with registers that are borrowed for it; *copied*, with its own
/// registers, which are kept; *called*, where only what it may change is kept; or called *by the gate*,
/// which keeps everything. (What the engine calls by itself has no places: functions for system calls
/// that are over, and for routines that are left by exceptions.)
///
/// With `--control start:EVENT,stop:EVENT`, likewise, what the tool has inserted is done in a part of the
/// run only (see [`Control`]).
///
/// To be called first thing, as long as there is a single thread. If the program was not
/// found, the process ends with a message and status 127; 126 if it cannot be run, 125 if
/// something else is wrong.
#[track_caller]
pub fn run(tool: impl Tool) -> ! {
    let words: Vec<_> = std::env::args_os().collect();
    let started = match set_asked_control(&words) {
        Ok(()) => {
            install(tool);
            start(&words)
        }
        Err(failure) => Err(failure),
    };
    let Err(failure) = started;
    let mut text = format!("error: {failure}");
    let mut source = std::error::Error::source(&failure);
    while let Some(cause) = source {
        text.push_str(&format!("\ncaused by: {cause}"));
        source = cause.source();
    }
    say(&text);
    std::process::exit(failure.exit_status())
}

fn start(words: &[OsString]) -> Result<std::convert::Infallible, Failure> {
    if let Some(Continuation { plan, program, .. }) = unspool_engine::continuation(words) {
        note_questions(&plan.own_arguments);
        return unspool_engine::run(plan, &program, clients()).map_err(Failure::Engine);
    }
    let (own, program) = split(words);
    let name = program.first().ok_or(Failure::NoProgram)?;
    let path = unspool_loader::resolve(name, std::env::var_os("PATH").as_deref())
        .map_err(Failure::Program)?;
    let arguments = program
        .iter()
        .map(|word| CString::new(word.as_bytes()).map_err(|_| Failure::Argument(word.clone())));
    let program = Program {
        path,
        arguments: arguments.collect::<Result<_, _>>()?,
        environment: unspool_engine::environment(),
    };
    let (own, address) = without_gdb(own);
    note_questions(&own);
    if let Some(address) = address {
        let address = address
            .to_string_lossy()
            .parse()
            .map_err(Failure::Address)?;
        unspool_debugger::listen(&address).map_err(Failure::Listen)?;
    }
    let plan = Plan {
        own_arguments: own,
        ..Plan::default()
    };
    unspool_engine::run(plan, &program, clients()).map_err(Failure::Engine)
}

/// The tool, and the debugger if there is one.
fn clients() -> Vec<Box<dyn NewClient>> {
    let tool = unspool_instrument::instrumenter(false).into_iter();
    tool.chain(unspool_debuggee::debugger()).collect()
}

/// Has the program that is going to be run in this process observed by the tool: for a command
/// that has several, and calls the engine itself.
///
/// # Panics
/// If there is a tool already.
#[track_caller]
pub fn install(tool: impl Tool) {
    instrument::install(Box::new(Adapter::new(tool, ASKED_CONTROL.get())));
}

/// Tells the user something, on standard error as it was at the start: the program may have
/// closed its own, or sent it elsewhere.
pub fn say(message: &str) {
    if unspool_kernel::diagnostics::diagnostics_fd() >= 0 {
        unspool_kernel::diagnostics::say(message);
    } else {
        eprintln!("{message}");
    }
}

/// Has gdb's user look at the program, if a debugger is attached (see [`run`]): to be called by a
/// function that inserted code has called. The program stops behind it, at the next boundary
/// between two instructions, with a trap; `reason` is said on standard error. Returns whether
/// somebody is there to look.
pub fn stop(reason: &str) -> bool {
    unspool_debuggee::request_stop(reason)
}
