//! `unspool help`: what the command does, or one of its commands, and the book about writing tools.

mod book;

use clap::CommandFactory;

use super::standard_output::print_result;
use crate::arguments::{Arguments, HelpArguments};
use crate::exit_status;
use crate::failure::Failure;

/// Prints what was asked for.
pub(crate) fn help(arguments: &HelpArguments) -> Result<u8, Failure> {
    let mut words = arguments.about.iter().map(String::as_str);
    let text = match words.next() {
        Some("book") => book::text(words.next())?,
        Some(first) => of_command(first, words)?,
        None => Arguments::command().render_long_help().to_string(),
    };
    print_result(text.as_bytes())?;
    Ok(exit_status::SUCCESS)
}

/// The help of a command, or of a command of a command.
fn of_command<'a>(first: &'a str, rest: impl Iterator<Item = &'a str>) -> Result<String, Failure> {
    let mut command = Arguments::command();
    // Names of commands of commands are complete only when they have been built.
    command.build();
    for word in std::iter::once(first).chain(rest) {
        let Some(found) = command.find_subcommand(word) else {
            let failure = Failure::from(anyhow::anyhow!("there is no command `{word}`"));
            return Err(failure.with_help("unspool help"));
        };
        command = found.clone();
    }
    Ok(command.render_long_help().to_string())
}
