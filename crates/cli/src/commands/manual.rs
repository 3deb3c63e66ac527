//! Completions and manual pages, generated from the arguments.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use super::standard_output::print_result;
use crate::arguments::Arguments;
use crate::exit_status;
use crate::failure::Failure;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "unspool", &mut script);
    print_result(&script)?;
    Ok(exit_status::SUCCESS)
}

/// Writes `unspool.1` and one page for each command.
pub(crate) fn manual_pages(directory: &Path) -> Result<u8, Failure> {
    let context = || format!("cannot write manual pages to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(context)?;
    clap_mangen::generate_to(Arguments::command(), directory).with_context(context)?;
    Ok(exit_status::SUCCESS)
}
