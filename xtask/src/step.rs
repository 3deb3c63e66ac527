//! One command of the loop: shown, run, timed.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

/// The workspace that cargo runs this for. It may have moved since this was built.
pub(crate) fn workspace() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package.join("..")
}

/// A command that runs in the root of the workspace.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace());
    command
}

/// The cargo that runs this.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    command(
        &std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()),
        arguments,
    )
}

/// Runs a command with its output on the terminal.
///
/// # Errors
/// If it cannot start or does not succeed.
pub(crate) fn run(mut command: Command) -> anyhow::Result<()> {
    let line = line(&command);
    eprintln!("+ {line}");
    let started = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    eprintln!("  {} s", started.elapsed().as_secs());
    Ok(())
}

fn line(command: &Command) -> String {
    let mut words = vec![command.get_program().display().to_string()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.display().to_string()),
    );
    words.join(" ")
}
