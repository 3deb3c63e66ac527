//! Opening traces, and telling what of them could not be read.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context;
use unspool_events::{HeaderError, Layout, Problem, ReadError, StreamInfo, Trace, TraceHeader};
use unspool_report::LeftOut;

use crate::exit_status;
use crate::failure::{Failure, warn};

/// Problems that are shown one by one; a badly damaged file can have thousands.
const SHOWN_PROBLEMS: usize = 20;

/// Opens a trace whose accesses are to be read: a file, or what comes through a pipe; `-` is
/// standard input.
pub(super) fn open(path: &Path) -> Result<Trace, Failure> {
    let trace = open_any(path)?;
    if trace.layout() == Layout::InPlace {
        let failure = Failure::new(format!("{} has no accesses", path.display()));
        let help = match openmp_streams(trace.streams()) {
            true => format!("unspool openmp {} reports on it", path.display()),
            false => format!("unspool info {} says what it has", path.display()),
        };
        return Err(failure.with_help(help));
    }
    Ok(trace)
}

/// Whether there are streams that `unspool openmp` reads.
pub(super) fn openmp_streams(streams: &[StreamInfo]) -> bool {
    let mut declared = streams
        .iter()
        .filter_map(|stream| stream.declaration.as_ref());
    declared.any(|stream| stream.name.starts_with("openmp-"))
}

/// Opens a file of any streams.
pub(super) fn open_any(path: &Path) -> Result<Trace, Failure> {
    let file = open_input(path)?;
    let is_plain = file.metadata().is_ok_and(|facts| facts.is_file());
    let file = if is_plain { file } else { keep(path, file)? };
    Trace::from_file(file).map_err(|error| unusable(path, error))
}

fn open_input(path: &Path) -> Result<File, Failure> {
    if path != Path::new("-") {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        return Ok(file);
    }
    if io::stdin().is_terminal() {
        return Err(Failure::new("standard input is a terminal, not a trace")
            .with_help("name a file, or pipe one: unspool trace -o - PROGRAM | unspool info -"));
    }
    let own = io::stdin().as_fd().try_clone_to_owned();
    Ok(own.map(File::from).context("cannot read standard input")?)
}

/// Keeps what comes through a pipe in a file without a name: the readers go back and forth.
fn keep(path: &Path, mut pipe: File) -> Result<File, Failure> {
    let reading = || format!("cannot read {}", path.display());
    let mut start = Vec::new();
    let mut begins = (&pipe).take(TraceHeader::MAGIC_BYTES as u64);
    begins.read_to_end(&mut start).with_context(reading)?;
    if !TraceHeader::begins(&start) {
        return Err(unusable(path, HeaderError::NotATrace.into()));
    }
    let folder = std::env::temp_dir();
    let keeping = || format!("cannot keep {} in {}", path.display(), folder.display());
    let with_help = |error: anyhow::Error| {
        Failure::from(error).with_help("have TMPDIR name a directory with room for the whole trace")
    };
    let kept = tempfile::tempfile().with_context(keeping);
    let mut kept = kept.map_err(with_help)?;
    let copied = kept
        .write_all(&start)
        .and_then(|()| io::copy(&mut pipe, &mut kept))
        .with_context(keeping);
    copied.map_err(with_help)?;
    Ok(kept)
}

fn unusable(path: &Path, error: ReadError) -> Failure {
    let help = match &error {
        ReadError::Header(HeaderError::NotATrace) if is_program(path) => Some(format!(
            "this is a program: unspool trace -- {0} records it, and unspool race -- {0} observes it",
            path.display()
        )),
        ReadError::Header(HeaderError::NotATrace) => Some(format!(
            "unspool merge {} reads text traces; binary traces come from unspool trace",
            path.display()
        )),
        ReadError::Header(HeaderError::UnknownVersion { .. }) => {
            Some("read it with the version of unspool that recorded it".to_owned())
        }
        _ => None,
    };
    let context = format!("cannot use {}", path.display());
    let failure = Failure::from(anyhow::Error::from(error).context(context));
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

/// Whether a file is a program or a script, by how it begins.
fn is_program(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read(&mut start));
    read.is_ok_and(|length| start[..length] == *b"\x7fELF" || start.starts_with(b"#!"))
}

/// Says in one line what the trace has and TSV cannot say. This is no problem of the trace.
pub(super) fn report_left_out(left_out: LeftOut) {
    let kinds = [
        (left_out.line_operations, "flushes and prefetches"),
        (left_out.fences, "fences"),
        (left_out.non_temporal, "marks of non-temporal accesses"),
    ];
    let counts = kinds.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    if !counts.is_empty() {
        warn(format_args!(
            "the format tsv has no words for {}: left out; csv, json and parquet have them",
            counts.join(", ")
        ));
    }
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
