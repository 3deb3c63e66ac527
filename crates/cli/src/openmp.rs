//! `unspool openmp`: why is this OpenMP program not faster?

mod launch;
mod machine;
mod original;
mod read;
mod source;

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use unspool_openmp::{Comparison, Grouping, Recording, Report, write_timeline};

use crate::arguments::{GroupingChoice, OpenmpArguments};
use crate::commands::print_result;
use crate::exit_status;
use crate::failure::{Failure, warn};

/// Runs a program and reports, or reports on what was recorded before.
pub(crate) fn openmp(typed: &OpenmpArguments) -> Result<u8, Failure> {
    if original::is_meant(&typed.words) {
        return original::carry_out(&typed.words, typed.strings.as_deref());
    }
    if let Some(result) = source::carry_out(typed) {
        return result;
    }
    let (recording, status) = match typed.words.as_slice() {
        [file] if read::is_recording(Path::new(file)) => {
            (read::recording(Path::new(file))?, exit_status::SUCCESS)
        }
        words => observe(words, typed)?,
    };
    let damaged = report_problems(&recording);
    // A file that cannot be written costs no report. Whoever reads that may close its end at any
    // time, which ends this process.
    let kept = keep(&recording, typed);
    let shown = rendered(&recording, typed).and_then(|report| show(&report, typed));
    if let (Err(_), Err(other)) = (&shown, &kept) {
        other.report();
    }
    shown.and(kept)?;
    Ok(match status {
        exit_status::SUCCESS if damaged => exit_status::INPUT_DAMAGED,
        status => status,
    })
}

fn show(report: &str, typed: &OpenmpArguments) -> Result<(), Failure> {
    match &typed.report {
        Some(path) => {
            std::fs::write(path, report).map_err(|error| Failure::cannot_write(path, error))
        }
        None => print_result(report.as_bytes()),
    }
}

fn observe(words: &[OsString], typed: &OpenmpArguments) -> Result<(Recording, u8), Failure> {
    let run = launch::run(
        words,
        typed.timeline.is_some(),
        typed.json && typed.report.is_none(),
    )?;
    if run.recording.processes.is_empty() {
        return Err(Failure::new(format!(
            "{} used neither OpenMP nor MPI where it could be seen",
            words[0].display()
        ))
        .with_help(
            "it must be linked dynamically with libgomp or libomp: \
             ldd PROGRAM tells; statically linked runtimes cannot be observed",
        ));
    }
    Ok((run.recording, run.status))
}

/// Tells what is missing; says whether something is.
fn report_problems(recording: &Recording) -> bool {
    let mut any = false;
    for process in &recording.processes {
        for problem in &process.problems {
            warn(format_args!("process {}: {problem}", process.process));
            any = true;
        }
        if process
            .runtimes
            .iter()
            .filter(|name| *name != "MPI")
            .count()
            > 1
        {
            warn(format_args!(
                "process {}: two OpenMP runtimes, {}, work beside each other; \
                 their threads are counted together",
                process.process,
                process.runtimes.join(" and ")
            ));
        }
    }
    any
}

/// Writes the files that were asked for.
fn keep(recording: &Recording, typed: &OpenmpArguments) -> Result<(), Failure> {
    if let Some(path) = &typed.output {
        let context = || format!("cannot write {}", path.display());
        let bytes = recording.to_bytes().with_context(context)?;
        std::fs::write(path, bytes).with_context(context)?;
    }
    if let Some(path) = &typed.timeline {
        let context = || format!("cannot write {}", path.display());
        if recording
            .processes
            .iter()
            .all(|process| process.spans.is_empty())
        {
            return Err(
                Failure::new("no single passages were recorded, so there is no time line")
                    .with_help("record with --timeline: unspool openmp --timeline FILE PROGRAM"),
            );
        }
        let mut output = BufWriter::new(File::create(path).with_context(context)?);
        let most = typed.timeline_passages;
        let line = write_timeline(recording, most, &mut output).with_context(context)?;
        output.flush().with_context(context)?;
        if line.left_out > 0 {
            warn(format_args!(
                "{} has the longest {most} of {} passages: --timeline-passages {} has all",
                path.display(),
                line.passages,
                line.passages
            ));
        }
    }
    Ok(())
}

fn rendered(recording: &Recording, typed: &OpenmpArguments) -> Result<String, Failure> {
    if let Some(before) = &typed.compare {
        let comparison = Comparison::new(&read::recording(before)?, recording);
        return Ok(match typed.json {
            true => serde_json::to_string_pretty(&comparison.to_json())? + "\n",
            false => comparison.to_text(),
        });
    }
    let grouping = match typed.by {
        GroupingChoice::Interval => Grouping::Interval,
        GroupingChoice::Function => Grouping::Function,
        GroupingChoice::Construct => Grouping::Construct,
    };
    let report = Report::new(recording, grouping);
    Ok(match typed.json {
        true => serde_json::to_string_pretty(&report.to_json(recording))? + "\n",
        false => report.to_text(recording, typed.rows),
    })
}
