//! `unspool profile`: where does the time go?

mod observe;
mod output;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use unspool_profile::{NamedPaths, Profile, View, export};
use unspool_profile_record::{ReadError, Recording};

use super::standard_output::print_result;
use crate::arguments::{ProfileArguments, ViewChoice};
use crate::exit_status;
use crate::failure::{Failure, warn};

/// Bytes that tell a recording from a program.
const START_BYTES: u64 = 64;

/// Runs a program and reports, or reports on what was recorded before.
pub(crate) fn profile(typed: &ProfileArguments) -> Result<u8, Failure> {
    let (recording, status) = match (typed.pid, typed.words.as_slice()) {
        (Some(pid), _) => (observe::process(pid, typed)?, exit_status::SUCCESS),
        (None, [file]) if is_recording(Path::new(file)) => {
            (read(Path::new(file))?, exit_status::SUCCESS)
        }
        (None, words) => observe::program(words, typed)?,
    };
    let paths = NamedPaths::new(&recording);
    let profile = Profile::new(&paths);
    profile.problems.iter().for_each(warn);
    // Whoever reads the report may close its end at any time, which ends this process.
    let exported = export(&paths, typed);
    let shown = show(&profile, typed);
    let results = [shown].into_iter().chain(exported);
    let mut failures = results.filter_map(Result::err);
    if let Some(first) = failures.next() {
        failures.for_each(|other| {
            other.report();
        });
        return Err(first);
    }
    let is_damaged = !recording.problems.is_empty() || recording.ending.is_none();
    Ok(match status {
        exit_status::SUCCESS if is_damaged => exit_status::INPUT_DAMAGED,
        status => status,
    })
}

/// Shows the report, or writes it to its file.
fn show(profile: &Profile, typed: &ProfileArguments) -> Result<(), Failure> {
    let report = if typed.json {
        serde_json::to_string_pretty(&profile.to_json())? + "\n"
    } else if typed.folded {
        profile.to_folded()
    } else {
        let views: Vec<View> = typed.view.iter().copied().map(view).collect();
        profile.to_text(&views)
    };
    match &typed.report {
        Some(path) => keep(path, report.as_bytes()),
        None => print_result(report.as_bytes()),
    }
}

fn keep(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::cannot_write(path, error))
}

/// Writes what other programs are to read. Where one file cannot be written, the others are.
fn export(paths: &NamedPaths<'_>, typed: &ProfileArguments) -> [Result<(), Failure>; 3] {
    let pprof = |path: &Path| keep(path, &export::pprof(paths)?);
    let firefox = |path: &Path| keep(path, &serde_json::to_vec(&export::firefox(paths))?);
    let speedscope = |path: &Path| keep(path, &serde_json::to_vec(&export::speedscope(paths))?);
    [
        typed.pprof.as_deref().map_or(Ok(()), pprof),
        typed.firefox.as_deref().map_or(Ok(()), firefox),
        typed.speedscope.as_deref().map_or(Ok(()), speedscope),
    ]
}

fn view(choice: ViewChoice) -> View {
    match choice {
        ViewChoice::Flat => View::Flat,
        ViewChoice::TopDown => View::TopDown,
        ViewChoice::BottomUp => View::BottomUp,
    }
}

/// Whether a file is a recording, or another file of Unspool, which is no program either.
fn is_recording(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.is_ok() && Recording::begins(&start)
}

fn read(path: &Path) -> Result<Recording, Failure> {
    let context = || format!("cannot use {}", path.display());
    let bytes = std::fs::read(path).with_context(context)?;
    Recording::read(&bytes).map_err(|error| {
        let has_others = error == ReadError::NoSamples;
        let failure = Failure::from(anyhow::Error::new(error).context(context()));
        match has_others {
            true => failure.with_help(format!("unspool info {} says what it is", path.display())),
            false => failure,
        }
    })
}
