//! One run of one program, with a time limit that nothing it starts can outlive unnoticed.
//!
//! Standard output and standard error go to files, not to pipes: a descendant that keeps
//! them open can then not make the run wait for it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::FairClock;
use rustix::process::{Pid, Signal, kill_process_group};

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Signalled(i32),
    /// It was still running at its limit, and was killed with all of its process group.
    TimedOut,
}

/// What a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// Standard output as text.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A program to run, with all that the run depends on.
#[derive(Debug, Clone)]
pub struct Invocation {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    stdin: Option<PathBuf>,
    limit: Duration,
    kill_after: Option<Duration>,
}

impl Invocation {
    /// Runs `program`, found as the search path says, for at most a minute, with no input
    /// and the environment of the caller.
    pub fn new(program: impl AsRef<OsStr>) -> Invocation {
        Invocation {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            stdin: None,
            limit: Duration::from_secs(60),
            kill_after: None,
        }
    }

    /// Appends arguments.
    #[must_use]
    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs in this folder.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Reads standard input from this file.
    #[must_use]
    pub fn stdin(mut self, file: &Path) -> Self {
        self.stdin = Some(file.to_owned());
        self
    }

    /// Ends the run, as [`Ending::TimedOut`], after this long by a [`FairClock`].
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Kills the program (not its group) with SIGKILL after this long: a part of the test,
    /// not a limit.
    #[must_use]
    pub fn kill_after(mut self, time: Duration) -> Self {
        self.kill_after = Some(time);
        self
    }

    /// Runs the program to its end, keeping its output in new files in `scratch`.
    ///
    /// # Errors
    /// If the program cannot be started or its output cannot be kept.
    pub fn run(&self, scratch: &Path) -> io::Result<Outcome> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = format!(
            "{}-{}",
            std::process::id(),
            RUNS.fetch_add(1, Ordering::Relaxed)
        );
        let stdout = scratch.join(format!("stdout-{run}"));
        let stderr = scratch.join(format!("stderr-{run}"));
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(match &self.stdin {
                Some(file) => Stdio::from(File::open(file)?),
                None => Stdio::null(),
            })
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .process_group(0);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn()?;
        let ending = self.wait(&mut child)?;
        let outcome = Outcome {
            ending,
            stdout: std::fs::read(&stdout)?,
            stderr: std::fs::read(&stderr)?,
        };
        std::fs::remove_file(stdout)?;
        std::fs::remove_file(stderr)?;
        Ok(outcome)
    }

    fn wait(&self, child: &mut Child) -> io::Result<Ending> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(500);
        let mut clock = FairClock::start();
        let mut to_kill = self.kill_after;
        let ending = loop {
            if let Some(status) = child.try_wait()? {
                break ending_of(status);
            }
            if to_kill.is_some_and(|time| started.elapsed() >= time) {
                child.kill()?;
                to_kill = None;
            }
            if clock.elapsed() >= self.limit {
                break Ending::TimedOut;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        // What the program left behind must not disturb the tests that follow.
        let _nobody_left = kill_process_group(Pid::from_child(child), Signal::KILL);
        child.wait()?;
        Ok(ending)
    }

    /// The run as a line for a shell.
    #[must_use]
    pub fn command_line(&self) -> String {
        let mut line = String::new();
        if let Some(folder) = &self.folder {
            line += &format!("cd {} && ", quote(folder.as_os_str()));
        }
        for (name, value) in &self.environment {
            line += &format!("{}={} ", name.display(), quote(value));
        }
        line += &quote(&self.program);
        for argument in &self.arguments {
            line.push(' ');
            line += &quote(argument);
        }
        if let Some(file) = &self.stdin {
            line += &format!(" < {}", quote(file.as_os_str()));
        }
        line
    }
}

fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, Some(signal)) => Ending::Signalled(signal),
        (None, None) => unreachable!("a program that ended has exited or was killed"),
    }
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=+:,@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Invocation {
        Invocation::new("/bin/sh").arguments(["-c", script])
    }

    #[test]
    fn endings_are_told_apart() {
        let folder = std::env::temp_dir();
        let ending = |script| shell(script).run(&folder).unwrap().ending;
        assert_eq!(ending("exit 7"), Ending::Exited(7));
        assert_eq!(ending("kill -SEGV $$"), Ending::Signalled(11));
    }

    #[test]
    fn a_hang_ends_at_its_limit_with_its_children() {
        let started = Instant::now();
        let outcome = shell("sleep 60 & echo $!; wait")
            // Enough to say the number, on a busy machine too.
            .limit(Duration::from_secs(3))
            .run(&std::env::temp_dir())
            .unwrap();
        assert_eq!(outcome.ending, Ending::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(20));
        let sleeper = outcome.stdout_text().trim().to_owned();
        assert_ne!(sleeper, "", "it must have begun");
        std::thread::sleep(Duration::from_millis(100));
        let state = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        assert!(
            state.is_empty() || state.contains(") Z "),
            "still there: {state}"
        );
    }

    #[test]
    fn the_line_for_a_shell_does_the_same() {
        let odd = shell("printf '%s' \"it's $WORD\"").variable("WORD", "two words");
        let folder = std::env::temp_dir();
        let again = shell(&odd.command_line()).run(&folder).unwrap();
        assert_eq!(again, odd.run(&folder).unwrap());
        assert_eq!(again.stdout, b"it's two words");
    }
}
