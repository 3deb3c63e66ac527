//! Opening traces, and telling what of them could not be read.

use std::path::Path;

use anyhow::Context;
use unspool_events::{Problem, ReadError, Trace};

use crate::exit_status;
use crate::failure::{Failure, warn};

/// Problems that are shown one by one; a badly damaged file can have thousands.
const SHOWN_PROBLEMS: usize = 20;

/// Opens a trace file.
pub(super) fn open(path: &Path) -> Result<Trace, Failure> {
    Trace::open(path).map_err(|error| {
        let help = match &error {
            ReadError::NotATrace => Some(format!(
                "unspool merge {} reads text traces; binary traces come from unspool trace",
                path.display()
            )),
            ReadError::UnknownVersion { .. } => {
                Some("read it with the version of unspool that recorded it".to_owned())
            }
            _ => None,
        };
        let context = format!("cannot use {}", path.display());
        let failure = match Err::<(), _>(error).context(context) {
            Ok(()) => Failure::new("no error"),
            Err(error) => Failure::from(error),
        };
        match help {
            Some(help) => failure.with_help(help),
            None => failure,
        }
    })
}

/// Shows what could not be read, on opening and on reading; returns the exit status for it.
pub(super) fn report_problems(on_opening: &[Problem], on_reading: &[Problem]) -> u8 {
    let mut problems: Vec<&Problem> = Vec::new();
    for problem in on_opening.iter().chain(on_reading) {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    for problem in problems.iter().take(SHOWN_PROBLEMS) {
        warn(problem);
    }
    if problems.len() > SHOWN_PROBLEMS {
        warn(format_args!("and {} more", problems.len() - SHOWN_PROBLEMS));
    }
    match problems.is_empty() {
        true => exit_status::SUCCESS,
        false => exit_status::INPUT_DAMAGED,
    }
}
