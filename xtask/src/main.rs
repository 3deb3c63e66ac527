//! The developer's loop, as `cargo xtask COMMAND`.

mod bench;
mod check;
mod fuzz;
mod packages;
mod step;
mod stress;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The developer's loop
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything that a change must pass: format, lints, documentation, tests
    Check(check::Arguments),
    /// Install what the tests observe, where that is possible, and run all tests
    Test(test::Arguments),
    /// Compare random instructions, run natively and observed
    Fuzz(fuzz::Arguments),
    /// Repeat guests and other end-to-end tests beside busy processes
    Stress(stress::Arguments),
    /// Measure what observing costs
    #[command(disable_help_flag = true)]
    Bench {
        /// See `cargo xtask bench --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Stress(arguments) => stress::run(&arguments),
        Command::Bench { arguments } => bench::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            for cause in problem.chain().skip(1) {
                eprintln!("caused by: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}
