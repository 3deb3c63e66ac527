//! One command of the loop: shown, run, timed.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
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
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    run_as(command, Command::status)
}

/// Runs a command with its output on the terminal, and shows each line of its standard
/// output to `look`, too.
///
/// # Errors
/// If it cannot start, its output cannot be passed on, or it does not succeed.
pub(crate) fn run_watched(command: Command, mut look: impl FnMut(&str)) -> anyhow::Result<()> {
    run_as(command, |command| {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            io::stdout().write_all(&line)?;
            look(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
        child.wait()
    })
}

fn run_as(
    mut command: Command,
    how: impl FnOnce(&mut Command) -> io::Result<ExitStatus>,
) -> anyhow::Result<()> {
    let line = line(&command);
    eprintln!("+ {line}");
    let started = Instant::now();
    let status = how(&mut command).with_context(|| format!("cannot run {line}"))?;
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
