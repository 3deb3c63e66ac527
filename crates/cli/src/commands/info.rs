//! `unspool info`

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use unspool_report::Information;

use super::standard_output::print_result;
use super::{followed, opened};
use crate::arguments::{InfoArguments, ProgressChoice};
use crate::exit_status;
use crate::failure::Failure;

/// Says what a trace holds, damage included.
pub(crate) fn info(typed: &InfoArguments) -> Result<u8, Failure> {
    if typed.follow {
        let mut counts = Counts::new(typed);
        followed::wait_for_end(&typed.input, || counts.show())?;
    }
    let trace = opened::open_any(&typed.input)?;
    let information = match typed.quick {
        true => Information::read_index(&trace),
        false => Information::read_all(&trace),
    };
    let mut text = match typed.json {
        true => serde_json::to_string_pretty(&information)?,
        false => information.to_string(),
    };
    text.push('\n');
    if !typed.json && opened::openmp_streams(trace.streams()) {
        text += &format!("unspool openmp {} reports on it\n", typed.input.display());
    }
    print_result(text.as_bytes())?;
    if !trace.is_complete() {
        followed::mention_rest(&typed.input);
    }
    Ok(match information.problems.is_empty() {
        true => exit_status::SUCCESS,
        false => exit_status::INPUT_DAMAGED,
    })
}

/// How far a trace is that is still being written.
struct Counts {
    path: PathBuf,
    is_shown: bool,
    shown_bytes: u64,
}

impl Counts {
    fn new(typed: &InfoArguments) -> Counts {
        Counts {
            path: typed.input.clone(),
            is_shown: match typed.progress {
                ProgressChoice::Always => true,
                ProgressChoice::Auto => io::stderr().is_terminal(),
                ProgressChoice::Never => false,
            },
            shown_bytes: 0,
        }
    }

    /// Says what there is, if that is more than before.
    fn show(&mut self) {
        if !self.is_shown {
            return;
        }
        // What is wrong with it is said at the end.
        let Ok(trace) = opened::open_any(&self.path) else {
            return;
        };
        let so_far = trace.summary();
        if so_far.file_bytes > self.shown_bytes {
            self.shown_bytes = so_far.file_bytes;
            eprintln!(
                "unspool: {} accesses and {} events of {} threads so far, {} bytes",
                so_far.accesses, so_far.events, so_far.threads, so_far.file_bytes
            );
        }
    }
}
