//! `unspool merge`

use std::io::{self, BufWriter, Cursor, Read, Write};

use anyhow::Context;
use unspool_events::StreamReader;
use unspool_report::{Names, TextMergeSummary, TsvExporter, TsvOptions, merge_text};

use super::opened;
use crate::exit_status;
use crate::failure::{Failure, warn};
use crate::plan::MergePlan;

/// Output of a text merge is passed on in pieces of this size.
const OUTPUT_BYTES: usize = 256 << 10;

/// Puts a stream in order.
pub(crate) fn merge(plan: &MergePlan) -> Result<u8, Failure> {
    let mut input = plan.input.open()?;
    let start = first_byte(&mut input).with_context(|| format!("cannot read {}", plan.input))?;
    let output = plan.destination.open()?;
    // A text trace starts with the time of its first line.
    let is_text = start.first().is_none_or(|byte| byte.is_ascii_digit());
    let input = Cursor::new(start).chain(input);
    if is_text {
        let summary = merge_text(
            input,
            BufWriter::with_capacity(OUTPUT_BYTES, output),
            plan.keep_time,
        )?;
        Ok(report_text(&summary))
    } else {
        let reader =
            StreamReader::new(input).with_context(|| format!("cannot use {}", plan.input))?;
        merge_binary(reader, output, plan.keep_time)
    }
}

fn merge_binary(
    reader: StreamReader<impl Read>,
    output: impl Write,
    keep_time: bool,
) -> Result<u8, Failure> {
    let options = TsvOptions {
        times: keep_time,
        thread_syncs: false,
        ..TsvOptions::of_trace(reader.header())
    };
    let mut exporter = TsvExporter::new(output, Names::new(), options);
    let (_, problems) = reader.deliver(&mut exporter);
    exporter.finish()?;
    Ok(opened::report_problems(&problems, &[]))
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
