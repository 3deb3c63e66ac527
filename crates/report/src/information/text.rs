//! The information as text for people.

use std::fmt::{Display, Formatter, Result};

use super::{Information, KindCounts, StreamInformation, ThreadInformation, Totals};

impl Display for Information {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        self.write_origin(out)?;
        if !self.in_place {
            write_totals(out, &self.totals)?;
        }
        if let Some(counts) = &self.counts {
            write_counts(out, counts)?;
        }
        if !self.streams.is_empty() {
            writeln!(out, "\nstreams")?;
        }
        for stream in &self.streams {
            write_stream(out, stream)?;
        }
        if !self.threads.is_empty() {
            writeln!(out, "\nthreads")?;
        }
        for thread in &self.threads {
            write_thread(out, thread)?;
        }
        if !self.modules.is_empty() {
            writeln!(out, "\nmodules")?;
        }
        for module in &self.modules {
            writeln!(
                out,
                "  {:<16} {:>10}  {}",
                module.base, module.size, module.path
            )?;
        }
        if !self.functions.is_empty() {
            writeln!(out, "\ntraced functions")?;
        }
        for function in &self.functions {
            writeln!(out, "  {:<16} {}", function.address, function.name)?;
        }
        Ok(())
    }
}

impl Information {
    fn write_origin(&self, out: &mut Formatter<'_>) -> Result {
        line(out, "program", &self.program)?;
        line(out, "arguments", self.arguments.join(" "))?;
        match self.parent_process {
            Some(parent) => line(
                out,
                "process",
                format_args!("{} (child of {parent})", self.process),
            )?,
            None => line(out, "process", self.process)?,
        }
        match self.granule {
            0 => line(out, "order", self.order)?,
            granule => line(
                out,
                "order",
                format_args!("{} (granule {granule} bytes)", self.order),
            )?,
        }
        for (name, value) in &self.options {
            line(
                out,
                "option",
                format_args!("{name} = {}", value.replace('\n', ", ")),
            )?;
        }
        line(
            out,
            "recorded by",
            format_args!("unspool {}", self.tool_version),
        )?;
        let state = match (self.complete, self.problems.is_empty()) {
            (true, true) if self.in_place => "filled in place",
            (true, true) => "whole",
            (true, false) => "damaged",
            (false, _) => "incomplete",
        };
        line(out, "state", state)?;
        for problem in &self.problems {
            line(out, "problem", problem)?;
        }
        Ok(())
    }
}

fn write_stream(out: &mut Formatter<'_>, stream: &StreamInformation) -> Result {
    match (&stream.name, stream.schema_version) {
        (Some(name), Some(version)) => write!(out, "  {name:<20} version {version}")?,
        _ => write!(out, "  {:<20} not declared", stream.stream)?,
    }
    if stream.in_blocks {
        let (blocks, bytes) = (grouped(stream.blocks), grouped(stream.block_bytes));
        write!(out, ", {blocks} blocks of {bytes} bytes together")?;
    }
    if let Some(records) = stream.records {
        write!(out, ", {} records", grouped(records))?;
    }
    if stream.understood == Some(false) {
        write!(out, ", which this version of unspool passes over")?;
    }
    writeln!(out)
}

fn write_totals(out: &mut Formatter<'_>, totals: &Totals) -> Result {
    writeln!(out)?;
    line(out, "accesses", grouped(totals.accesses))?;
    line(
        out,
        "instructions",
        format_args!(
            "{} executed, {} of them accessing memory",
            grouped(totals.executed_instructions),
            grouped(totals.accessing_instructions)
        ),
    )?;
    line(out, "events", grouped(totals.events))?;
    line(out, "superblocks", grouped(totals.superblocks))?;
    line(out, "chunks", grouped(totals.chunks))?;
    line(out, "recorded words", grouped(totals.raw_words))?;
    if totals.dropped_words > 0 {
        line(out, "lost words", grouped(totals.dropped_words))?;
    }
    match totals.bytes_per_access {
        Some(ratio) => line(
            out,
            "file",
            format_args!("{} bytes, {ratio:.3} an access", grouped(totals.file_bytes)),
        ),
        None => line(
            out,
            "file",
            format_args!("{} bytes", grouped(totals.file_bytes)),
        ),
    }?;
    write_measurements(out, totals)
}

/// What the observer measured of its own run, where it did.
fn write_measurements(out: &mut Formatter<'_>, totals: &Totals) -> Result {
    for (name, bytes) in [
        ("translated code", totals.translated_code_bytes),
        ("buffers", totals.buffer_bytes),
    ] {
        if let Some(bytes) = bytes {
            line(out, name, format_args!("{} bytes", grouped(bytes)))?;
        }
    }
    if let Some(flushes) = totals.code_cache_flushes.filter(|&flushes| flushes > 0) {
        line(out, "cache flushes", grouped(flushes))?;
    }
    if let Some(why) = &totals.ended_early {
        line(out, "ended early", why)?;
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    if let (Some(processor), Some(wall)) = (totals.processor_ns, totals.wall_ns) {
        let (processor, wall) = (seconds(processor), seconds(wall));
        line(
            out,
            "time",
            format_args!("{wall:.2} s, processor time {processor:.2} s"),
        )?;
    }
    if let (Some(slowdown), Some(native)) = (totals.slowdown, totals.native_processor_ns) {
        let native = seconds(native);
        line(
            out,
            "slowdown",
            format_args!("{slowdown:.1} (natively {native:.2} s of processor time)"),
        )?;
    }
    Ok(())
}

fn write_counts(out: &mut Formatter<'_>, counts: &KindCounts) -> Result {
    writeln!(out)?;
    line(
        out,
        "reads",
        format_args!(
            "{} ({} bytes)",
            grouped(counts.reads),
            grouped(counts.bytes_read)
        ),
    )?;
    line(
        out,
        "writes",
        format_args!(
            "{} ({} bytes)",
            grouped(counts.writes),
            grouped(counts.bytes_written)
        ),
    )?;
    line(out, "atomic", grouped(counts.atomic_accesses))?;
    line(
        out,
        "failed swaps",
        grouped(counts.failed_compare_and_swaps),
    )?;
    if counts.non_temporal_accesses > 0 {
        line(out, "non-temporal", grouped(counts.non_temporal_accesses))?;
    }
    if counts.values > 0 {
        line(out, "values", grouped(counts.values))?;
    }
    for (kind, count) in &counts.events {
        line(out, kind, grouped(*count))?;
    }
    Ok(())
}

fn write_thread(out: &mut Formatter<'_>, thread: &ThreadInformation) -> Result {
    write!(
        out,
        "  {:>4}  time {} to {}, {} accesses, {} events, {} chunks, {} bytes",
        thread.thread,
        thread.start_time,
        thread.end_time,
        grouped(thread.accesses),
        grouped(thread.events),
        grouped(thread.chunks),
        grouped(thread.file_bytes),
    )?;
    if let Some(os_thread) = thread.os_thread {
        write!(out, ", kernel's id {os_thread}")?;
    }
    if let Some(number) = thread.registered_number {
        write!(out, ", registered as {number}")?;
    }
    if let Some(name) = &thread.name {
        write!(out, " \"{name}\"")?;
    }
    writeln!(out, "{}", if thread.finished { "" } else { ", cut off" })
}

fn line(out: &mut Formatter<'_>, label: &str, value: impl Display) -> Result {
    writeln!(out, "{label:<18} {value}")
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
