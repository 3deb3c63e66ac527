//! What was typed for `unspool tool`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use super::ChildrenChoice;

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
    Run(ToolRunArguments),
}

/// `unspool tool run`
#[derive(Debug, Args)]
#[command(override_usage = "unspool tool run [OPTIONS] TOOL [--] PROGRAM [ARGUMENT]...")]
pub(crate) struct ToolRunArguments {
    /// What to do with the processes that the program starts
    #[arg(long, value_enum, default_value_t = ChildrenChoice::Follow)]
    pub(crate) children: ChildrenChoice,

    /// The tool: one that `unspool tool list` names
    #[arg(value_name = "TOOL")]
    pub(crate) tool: String,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}
