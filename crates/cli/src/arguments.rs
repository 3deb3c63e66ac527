//! What was typed. [`crate::plan`] says what it means.

mod detaching;
mod live;
mod observing;
mod openmp;
mod profile;
mod reading;
mod tool;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use detaching::{DetachArguments, DetachChoice};
pub(crate) use live::LiveChoice;
pub(crate) use observing::{ChildrenChoice, OrderChoice, RunArguments, TraceArguments};
pub(crate) use openmp::{GroupingChoice, LeftOutChoice, OpenmpArguments};
pub(crate) use profile::{
    BackendChoice, ClockChoice, ProfileArguments, ScalingChoice, ShowChoice, ViewChoice,
};
pub(crate) use reading::{
    AnnotationChoice, ExportArguments, FormatChoice, InfoArguments, MergeArguments, ProgressChoice,
    RaceArguments, ReplayIncrementsArguments, ShowArguments, VerifyArguments,
};

pub(crate) use tool::{ToolArguments, ToolCommand, ToolNewArguments, ToolRunArguments};

use crate::exit_status;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "unspool",
    version,
    about = "Shows what a parallel program on Linux x86-64 really does, without recompiling it",
    after_help = exit_status::HELP,
    subcommand_required = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct HelpArguments {
    /// A command (`trace`, `tool run`), or `book` and perhaps the name of a chapter
    #[arg(value_name = "COMMAND|book")]
    pub(crate) about: Vec<String>,
}

/// `unspool doctor`
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArguments {
    /// Report in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program under the translator without recording anything
    Run(RunArguments),
    /// Record a program's memory accesses, in the order in which they happened
    Trace(TraceArguments),
    /// Let an observed process go: it runs natively from there on
    Detach(DetachArguments),
    /// Convert a trace to text, CSV, JSON lines or Parquet
    Export(ExportArguments),
    /// Put a trace that is still being written, or a text trace, in order of time
    Merge(MergeArguments),
    /// Show a trace, or a part of it, with disassembly and lines of the source
    Show(ShowArguments),
    /// Say what a trace contains, and whether it is whole
    Info(InfoArguments),
    /// Check that a trace recorded with --verify has the order that really happened
    Verify(VerifyArguments),
    /// Find data races in a program that nobody recompiled, or in a trace of it
    Race(RaceArguments),
    /// Recount, from the order of a trace, what each thread saw of a shared counter
    ReplayIncrements(ReplayIncrementsArguments),
    /// Run one of the tools that come with unspool, or start one of your own
    Tool(ToolArguments),
    /// Say why an OpenMP program is not faster: where its threads wait, and for what
    Openmp(OpenmpArguments),
    /// Say where a program's time goes, by function and by call path
    Profile(Box<ProfileArguments>),
    /// Say what this machine lets the commands do, and what would let them do more
    Doctor(DoctorArguments),
    /// Print what a command does, or a chapter of the book about writing tools
    Help(HelpArguments),
    /// Print a script that completes this command's arguments in a shell
    Completions {
        /// For which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    ManualPages {
        /// Into which directory; it is made where it does not exist
        #[arg(value_name = "DIRECTORY")]
        directory: PathBuf,
    },
}

#[cfg(test)]
mod tests;
