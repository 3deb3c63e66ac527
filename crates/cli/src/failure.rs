//! A failure of the command, and how it is shown.

use std::ffi::c_int;
use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::path::Path;

use crate::exit_status;

/// Why the command failed, with its exit status and, where there is one, the way out.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit status.
    pub(crate) status: u8,
    /// What failed, and its causes.
    pub(crate) error: anyhow::Error,
    /// What to do about it: preferably an exact command.
    pub(crate) help: Option<String>,
}

impl Failure {
    /// A failure of the command itself.
    pub(crate) fn new(message: impl Display) -> Failure {
        Failure::from(anyhow::Error::msg(message.to_string()))
    }

    /// A file could not be written.
    pub(crate) fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
        Failure::from(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
    }

    /// The same failure with advice.
    pub(crate) fn with_help(mut self, help: impl Display) -> Failure {
        self.help = Some(help.to_string());
        self
    }

    /// The same failure, which is about a file.
    pub(crate) fn in_file(mut self, path: &Path) -> Failure {
        self.error = self.error.context(path.display().to_string());
        self
    }

    /// The same failure with another exit status.
    pub(crate) fn with_status(mut self, status: u8) -> Failure {
        self.status = status;
        self
    }

    /// Whether this is only the reader of our output having closed its end.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }

    /// Shows the failure on standard error and gives the exit status.
    pub(crate) fn report(&self) -> c_int {
        if self.is_broken_pipe() {
            return exit_status::SUCCESS.into();
        }
        let mut lines = labelled("error:", RED, &self.error);
        for cause in self.error.chain().skip(1) {
            lines += &labelled("caused by:", BOLD, &cause);
        }
        if let Some(help) = &self.help {
            lines += &labelled("help:", GREEN, help);
        }
        // Standard error is closed or full: there is nobody left to tell.
        let _ = std::io::stderr().write_all(lines.as_bytes());
        self.status.into()
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure {
            status: exit_status::FAILED,
            error: error.into(),
            help: None,
        }
    }
}

/// Tells the user about something that did not stop the command.
pub(crate) fn warn(message: impl Display) {
    let _ = std::io::stderr().write_all(labelled("warning:", YELLOW, &message).as_bytes());
}

const RED: &str = "\x1b[1;31m";
const GREEN: &str = "\x1b[1;32m";
const YELLOW: &str = "\x1b[1;33m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// One line that starts with a label, coloured where a person reads it.
fn labelled(label: &str, colour: &str, text: &impl Display) -> String {
    if coloured() {
        format!("{colour}{label}{PLAIN} {text}\n")
    } else {
        format!("{label} {text}\n")
    }
}

/// Whether to colour standard error: <https://no-color.org>.
fn coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
        && std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_broken_pipe_is_recognised_below_its_context() {
        let broken: Result<(), _> = Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let failure = Failure::from(broken.context("cannot write").unwrap_err());
        assert!(failure.is_broken_pipe());
        assert_eq!(failure.report(), 0);
        let full: Result<(), _> = Err(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert!(!Failure::from(full.context("cannot write").unwrap_err()).is_broken_pipe());
    }
}
