//! What was typed for `unspool tool`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ChildrenChoice, DetachChoice};

/// `unspool tool`
#[derive(Debug, Args)]
pub(crate) struct ToolArguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ToolCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// Name the tools that come with unspool
    List,
    /// Run a program under one of them
    Run(Box<ToolRunArguments>),
    /// Make a crate that is a tool, to start from
    New(ToolNewArguments),
}

/// `unspool tool run`
#[derive(Debug, Args)]
#[command(override_usage = "unspool tool run [OPTIONS] TOOL [--] PROGRAM [ARGUMENT]...")]
pub(crate) struct ToolRunArguments {
    /// What to do with the processes that the program starts
    #[arg(long, value_enum, default_value_t = ChildrenChoice::Follow)]
    pub(crate) children: ChildrenChoice,

    /// An argument for the tool; can be given several times
    #[arg(long, short, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub(crate) argument: Vec<OsString>,

    /// Have the tool look at a part of the run: start:EVENT,stop:EVENT
    ///
    /// EVENT is enter_func:NAME, exit_func:NAME, address:ADDRESS (of the program's file), icount:NUMBER
    /// (of instructions of each thread), timeout:SECONDS, or roi (what the program says by unspool.h);
    /// with :countN behind it, its N-th time. Without a stop, the part lasts until the end. With :repeat
    /// behind the event of the start, such parts come again.
    #[arg(long, value_name = "EVENTS", conflicts_with = "probe")]
    pub(crate) control: Option<unspool_tool::Control>,

    /// Run the program natively, with a probe in it instead of a tool around it
    ///
    /// A probe puts functions of its own around the program's, or in their place, and costs
    /// nothing elsewhere. TOOL is one that `unspool tool list` names under probes, or the path of
    /// a library, with a slash.
    #[arg(long, conflicts_with = "gdb")]
    pub(crate) probe: bool,

    /// Have a probe say what it does to which function
    #[arg(long, requires = "probe")]
    pub(crate) verbose: bool,

    /// Wait for gdb before the first instruction, and let it debug the program
    ///
    /// At a port of this machine's loopback interface (:PORT; :0 picks one that is free), or at a
    /// Unix socket (a path that contains a slash). In gdb: target remote ADDRESS.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) gdb: Option<unspool_debugger::Address>,

    /// When it is let go.
    #[command(flatten)]
    pub(crate) detach: DetachChoice,

    /// The tool: one that `unspool tool list` names; with --probe, a probe
    #[arg(value_name = "TOOL")]
    pub(crate) tool: OsString,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

/// `unspool tool new`
#[derive(Debug, Args)]
pub(crate) struct ToolNewArguments {
    /// Where the crate lies, in a folder that does not exist yet; its last word is its name
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,

    /// Make a probe, which is loaded into programs that run natively
    #[arg(long)]
    pub(crate) probe: bool,

    /// Where the crate unspool-tool (for a probe, unspool-probe) lies: crates/tool (crates/probe)
    /// of a checkout. By default, the sources are used that this command carries, which it puts among
    /// the user's caches
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) library: Option<PathBuf>,
}
