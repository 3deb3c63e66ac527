//! The report for a person.

use std::fmt::Write;

use super::seconds;
use crate::characteristics::{Characteristics, LossClass};
use crate::hierarchy::Hierarchy;
use crate::location::Location;
use crate::recording::{Process, Recording};
use crate::report::{ProcessReport, Report};

/// Synchronisation points that are shown; JSON has all.
const SHOWN_POINTS: usize = 12;
/// Findings that are shown.
const SHOWN_FINDINGS: usize = 8;
/// Characters of a thread's bar.
const BAR_WIDTH: usize = 50;

impl Report {
    /// The report as text for a person.
    #[must_use]
    pub fn to_text(&self, recording: &Recording) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write_report(&mut text, self, recording);
        text
    }
}

fn write_report(text: &mut String, report: &Report, recording: &Recording) -> std::fmt::Result {
    writeln!(text, "{}", recording.command.join(" "))?;
    writeln!(text)?;
    write_characteristics(text, &report.characteristics)?;
    write_hierarchy(text, &report.hierarchy)?;
    let several = report.processes.len() > 1;
    for (one, process) in report.processes.iter().zip(&recording.processes) {
        if several {
            let rank = process
                .rank
                .map(|rank| format!("rank {rank}, "))
                .unwrap_or_default();
            writeln!(
                text,
                "\nProcess {rank}{}: {}",
                process.process,
                process.arguments.join(" ")
            )?;
            write_characteristics(text, &one.characteristics)?;
        }
        write_process(text, one, process)?;
    }
    Ok(())
}

fn write_characteristics(text: &mut String, one: &Characteristics) -> std::fmt::Result {
    let total = one.total_ns();
    let part = |ns: u64| match total {
        0 => 0.0,
        total => ns as f64 * 100.0 / total as f64,
    };
    writeln!(text, "Execution time {:>25.6} s", seconds(one.execution_ns))?;
    writeln!(text, "Threads {:>25}", one.processors)?;
    let rows = [
        ("Total time", total),
        ("Productive time", one.productive_ns()),
        ("Idle time", one.idle_ns()),
        ("Lost time", one.lost_ns()),
    ];
    for (name, ns) in rows {
        writeln!(
            text,
            "{name:<20} {:>19.6} s  {:>5.1} %",
            seconds(ns),
            part(ns)
        )?;
    }
    let losses = one.losses();
    let insufficient = one.insufficient_parallelism_ns();
    if insufficient > 0 {
        writeln!(
            text,
            "  insufficient parallelism {:>13.6} s  {:>5.1} %",
            seconds(insufficient),
            part(insufficient)
        )?;
    }
    for class in LossClass::ALL {
        let ns = losses.get(*class);
        let indent = match class {
            LossClass::SerialPart | LossClass::Duplicated => "    ",
            _ => "  ",
        };
        if ns > 0 {
            let name = format!("{indent}{}", class.words());
            writeln!(
                text,
                "{name:<26} {:>13.6} s  {:>5.1} %",
                seconds(ns),
                part(ns)
            )?;
        }
    }
    writeln!(text, "Efficiency {:>37.1} %", one.efficiency() * 100.0)
}

fn write_hierarchy(text: &mut String, one: &Hierarchy) -> std::fmt::Result {
    let rows = [
        ("Parallel efficiency", Some(one.parallel_efficiency)),
        ("  load balance", Some(one.load_balance)),
        ("  communication", Some(one.communication_efficiency)),
        ("    serialisation", one.serialisation_efficiency),
        ("    transfer", one.transfer_efficiency),
        ("  MPI", one.mpi_parallel_efficiency),
        ("  OpenMP", one.openmp_parallel_efficiency),
    ];
    writeln!(text, "\nPOP")?;
    for (name, value) in rows {
        if let Some(value) = value {
            writeln!(text, "{name:<26} {:>21.1} %", value * 100.0)?;
        }
    }
    Ok(())
}

fn write_process(text: &mut String, one: &ProcessReport, process: &Process) -> std::fmt::Result {
    writeln!(
        text,
        "\nThreads: # productive, . lost to serial parts, - other losses"
    )?;
    for thread in &one.characteristics.threads {
        let execution = one.characteristics.execution_ns.max(1) as f64;
        let length = |ns: u64| (ns as f64 / execution * BAR_WIDTH as f64).round() as usize;
        let productive = length(thread.productive_ns).min(BAR_WIDTH);
        let serial = length(thread.losses.get(LossClass::SerialPart)).min(BAR_WIDTH - productive);
        let rest = BAR_WIDTH - productive - serial;
        writeln!(
            text,
            "{:>4} |{}{}{}| {:>5.1} %",
            thread.thread,
            "#".repeat(productive),
            "-".repeat(rest),
            ".".repeat(serial),
            thread.productive_ns as f64 * 100.0 / execution
        )?;
    }
    if !one.diagnosis.is_empty() {
        writeln!(text, "\nDiagnosis")?;
        for (_, sentence) in one.diagnosis.iter().take(SHOWN_FINDINGS) {
            writeln!(text, "  * {sentence}")?;
        }
        write_hidden(text, one.diagnosis.len(), SHOWN_FINDINGS)?;
    }
    write_intervals(text, one)?;
    write_points(text, one)?;
    if process.cancelled > 0 {
        writeln!(text, "\n{} constructs were cancelled", process.cancelled)?;
    }
    Ok(())
}

fn write_hidden(text: &mut String, all: usize, shown: usize) -> std::fmt::Result {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        hidden => writeln!(text, "  and {hidden} more; --json shows all"),
    }
}

fn write_intervals(text: &mut String, one: &ProcessReport) -> std::fmt::Result {
    if one.intervals.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "\n{:>12} {:>12} {:>12} {:>6} {:>9}  Interval",
        "Execution", "Productive", "Lost", "Eff.", "Count"
    )?;
    for interval in &one.intervals {
        let figures = &interval.characteristics;
        writeln!(
            text,
            "{:>12.6} {:>12.6} {:>12.6} {:>5.1}% {:>9}  {}{}",
            seconds(figures.execution_ns),
            seconds(figures.productive_ns()),
            seconds(figures.lost_ns()),
            figures.efficiency() * 100.0,
            interval.count,
            "  ".repeat(interval.level),
            interval.name
        )?;
    }
    Ok(())
}

fn write_points(text: &mut String, one: &ProcessReport) -> std::fmt::Result {
    if one.points.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "\n{:>12} {:>12} {:>12} {:>10}  Synchronisation point",
        "Wait", "Average", "Longest", "Count"
    )?;
    for point in one.points.iter().take(SHOWN_POINTS) {
        // A place that is no line names its function already.
        let has_file = point.location.file.is_some();
        let function = point.location.short_function().filter(|_| has_file);
        writeln!(
            text,
            "{:>12.6} {:>12.6} {:>12.6} {:>10}  {}{} at {}{}",
            seconds(point.wait_ns),
            seconds(point.average_wait_ns()),
            seconds(point.longest_wait_ns),
            point.count,
            point.kind.word(),
            point
                .name
                .as_ref()
                .map(|name| format!(" {name}"))
                .unwrap_or_default(),
            point.location.short(),
            function
                .map(|name| format!(" in {name}"))
                .unwrap_or_default()
        )?;
    }
    write_hidden(text, one.points.len(), SHOWN_POINTS)?;
    let shown = one.points.iter().take(SHOWN_POINTS);
    if shown.map(|point| &point.location).any(is_address) {
        writeln!(
            text,
            "\nPlaces without a line are addresses in their files: compile with -g to see lines of the \
             source"
        )?;
    }
    Ok(())
}

/// Whether only an address is known of a place, because nothing says which line it is.
fn is_address(place: &Location) -> bool {
    place.line.is_none() && !place.module.is_empty()
}
