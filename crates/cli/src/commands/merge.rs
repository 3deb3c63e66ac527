//! `unspool merge`

use std::fs::Metadata;
use std::io::{self, BufWriter, Cursor, Read};
use std::path::Path;

use anyhow::Context;
use unspool_events::{StreamReader, TraceHeader};
use unspool_report::{
    Both, Description, Names, TextMergeSummary, TsvExporter, TsvOptions, merge_text,
};

use super::{described, followed, opened};
use crate::exit_status;
use crate::failure::{Failure, warn};
use crate::plan::{Destination, Input, MergePlan};
use crate::progress::{Counted, Progress};

/// Output of a text merge is passed on in pieces of this size.
const OUTPUT_BYTES: usize = 256 << 10;

/// Puts a trace in order.
pub(crate) fn merge(plan: &MergePlan) -> Result<u8, Failure> {
    if plan.follow {
        return match &plan.input {
            Input::File(path) => merge_stream(followed::open(path)?, plan),
            Input::StandardInput => Err(followed::not_a_file("standard input")),
        };
    }
    let mut input = plan.input.open()?;
    let facts = input.metadata().ok().filter(Metadata::is_file);
    let (is_file, bytes) = (facts.is_some(), facts.map(|facts| facts.len()));
    let start = first_byte(&mut input).with_context(|| format!("cannot read {}", plan.input))?;
    // A text trace starts with the time of its first line.
    let is_text = start.first().is_none_or(|byte| byte.is_ascii_digit());
    let input = Cursor::new(start).chain(input);
    match &plan.input {
        _ if is_text => merge_text_stream(input, bytes, plan),
        // A whole file can be read better than a stream: what is damaged can be skipped,
        // and all threads are known from the start.
        Input::File(path) if is_file => merge_file(path, plan),
        _ => {
            let reader = StreamReader::new(input);
            let reader = reader.with_context(|| format!("cannot use {}", plan.input))?;
            merge_stream(reader, plan)
        }
    }
}

fn merge_text_stream(
    input: impl Read,
    bytes: Option<u64>,
    plan: &MergePlan,
) -> Result<u8, Failure> {
    let pending = plan.destination.open()?;
    let output = BufWriter::with_capacity(OUTPUT_BYTES, pending.writer()?);
    let progress = Progress::new("bytes", bytes, plan.progress, prints_lines(plan));
    let summary = merge_text(Counted(input, progress), output, plan.keep_time)?;
    pending.complete()?;
    Ok(report_text(&summary))
}

fn merge_file(path: &Path, plan: &MergePlan) -> Result<u8, Failure> {
    let trace = opened::open(path)?;
    let options = options(trace.header(), plan);
    let described_in = described::create(plan.description.as_deref())?;
    let pending = plan.destination.open()?;
    let mut exporter = TsvExporter::new(pending.writer()?, Names::of_trace(&trace), options);
    let mut description = Description::of_trace(&trace);
    let mut progress = Progress::of_trace(&trace, plan.progress, prints_lines(plan));
    let mut learning = Both(&mut description, &mut progress);
    let mut sinks = Both(&mut exporter, &mut learning);
    let problems = trace.merged().deliver(&mut sinks);
    opened::report_left_out(exporter.finish()?);
    described::complete(described_in, &description)?;
    pending.complete()?;
    if !trace.is_complete() {
        followed::mention_rest(path);
    }
    Ok(opened::report_problems(trace.problems(), &problems))
}

fn merge_stream(reader: StreamReader<impl Read>, plan: &MergePlan) -> Result<u8, Failure> {
    let options = options(reader.header(), plan);
    let described_in = described::create(plan.description.as_deref())?;
    // Names come with the stream.
    let pending = plan.destination.open()?;
    let mut exporter = TsvExporter::new(pending.writer()?, Names::new(), options);
    let mut description = Description::new(reader.header());
    let mut progress = Progress::new("accesses", None, plan.progress, prints_lines(plan));
    let mut learning = Both(&mut description, &mut progress);
    let mut sinks = Both(&mut exporter, &mut learning);
    let problems = reader.deliver(&mut sinks).problems;
    opened::report_left_out(exporter.finish()?);
    description.set_complete(problems.is_empty());
    described::complete(described_in, &description)?;
    pending.complete()?;
    Ok(opened::report_problems(&problems, &[]))
}

fn prints_lines(plan: &MergePlan) -> bool {
    plan.destination == Destination::StandardOutput
}

fn options(header: &TraceHeader, plan: &MergePlan) -> TsvOptions {
    TsvOptions {
        times: plan.keep_time,
        thread_syncs: false,
        ..TsvOptions::of_trace(header)
    }
}

/// The first byte of the input, or none where it is empty.
fn first_byte(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(1);
    input.by_ref().take(1).read_to_end(&mut start)?;
    Ok(start)
}

/// Tells what was wrong with a text trace; returns the exit status for it.
fn report_text(summary: &TextMergeSummary) -> u8 {
    let mut status = exit_status::SUCCESS;
    if let Some(first) = summary.first_unreadable_line {
        let lines = summary.unreadable_lines;
        warn(format_args!(
            "{lines} lines are no trace with times, the first of them line {first}: left out"
        ));
        status = exit_status::INPUT_DAMAGED;
    }
    if summary.late_lines > 0 {
        warn(format_args!(
            "{} lines came after later ones had been written, and stand too late; \
             if the input is a file, use: sort -s -n -k1,1 FILE",
            summary.late_lines
        ));
        status = exit_status::INPUT_DAMAGED;
    }
    status
}
