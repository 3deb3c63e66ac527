//! The `unspool` command: the only place that joins observers and analyses.
//!
//! What was typed ([`arguments`]) becomes a checked [`plan`]; each command carries out its
//! plan. Results go to standard output, everything else to standard error. Every exit
//! status is in [`exit_status`].
#![cfg_attr(not(test), no_main)]

mod arguments;
mod commands;
mod exit_status;
mod failure;
mod native_program;
mod openmp;
mod plan;
mod progress;
mod users_cache;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Parser;
use clap::error::ErrorKind;
use unspool_kernel::own_stack;

use arguments::{Arguments, Command};
use failure::Failure;

/// The C entry point, in place of Rust's own.
///
/// Rust's would ignore SIGPIPE, open /dev/null in place of closed standard files and set up
/// an alternate signal stack: all of this the observed program, which shares the process,
/// would inherit. And with SIGPIPE as it was, `unspool export … | head` ends as quietly as
/// any other filter.
// SAFETY: no other function of the executable is called `main`, and the signature is the one
// that the C runtime calls.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn main(_argument_count: c_int, _arguments: *const *const u8) -> c_int {
    // A panic has printed its message; it must not unwind into C.
    catch_unwind(AssertUnwindSafe(run_on_own_stack)).unwrap_or(exit_status::FAILED.into())
}

/// Leaves the process's stack, which may be small, to the program that is observed.
fn run_on_own_stack() -> c_int {
    own_stack::call(|_| run()).unwrap_or_else(|error| {
        let failure = Failure::from(anyhow::Error::from(error).context("cannot map a stack"));
        failure.with_help(commands::observe::MORE_MEMORY).report()
    })
}

fn run() -> c_int {
    let words: Vec<_> = std::env::args_os().collect();
    if let Some(failure) = commands::continuation::continue_observed(&words) {
        return failure.report();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return show_usage(&error),
    };
    match carry_out(arguments.command) {
        Ok(status) => status.into(),
        Err(failure) => failure.report(),
    }
}

/// Shows help on standard output and mistakes on standard error.
fn show_usage(error: &clap::Error) -> c_int {
    // Nothing is left to be done if it cannot be shown.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit_status::SUCCESS.into(),
        _ => exit_status::FAILED.into(),
    }
}

/// Makes the plan and carries it out; returns the exit status.
fn carry_out(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(typed) => commands::run::run(&typed.try_into()?),
        Command::Trace(typed) => commands::trace::trace(&typed.try_into()?),
        Command::Detach(typed) => commands::detach::detach(&typed),
        Command::Export(typed) => commands::export::export(&typed.try_into()?),
        Command::Merge(typed) => commands::merge::merge(&typed.into()),
        Command::Show(typed) => commands::show::show(typed),
        Command::Info(typed) => commands::info::info(&typed),
        Command::Verify(typed) => commands::verify::verify(&typed),
        Command::Race(typed) => commands::race::race(&typed),
        Command::ReplayIncrements(typed) => commands::replay_increments::replay(&typed),
        Command::Tool(typed) => commands::tool::tool(typed),
        Command::Openmp(typed) => openmp::openmp(&typed),
        Command::Profile(typed) => commands::profile::profile(&typed),
        Command::Doctor(typed) => commands::doctor::doctor(&typed),
        Command::Help(typed) => commands::help::help(&typed),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::ManualPages { directory } => commands::manual::manual_pages(&directory),
    }
}
