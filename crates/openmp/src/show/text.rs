//! The report for a person.

use std::fmt::Write;

use super::seconds;
use crate::characteristics::{Characteristics, LossClass, Overheads};
use crate::hierarchy::Hierarchy;
use crate::location::Location;
use crate::recording::{Process, Recording};
use crate::report::{ProcessReport, Report};

/// Calls of a path that are shown; JSON has all.
const SHOWN_CALLS: usize = 5;
/// Characters of a thread's bar.
const BAR_WIDTH: usize = 50;

impl Report {
    /// The report as text for a person, with so many rows in each of its tables and lists.
    #[must_use]
    pub fn to_text(&self, recording: &Recording, rows: usize) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write_report(&mut text, self, recording, rows);
        text
    }
}

fn write_report(
    text: &mut String,
    report: &Report,
    recording: &Recording,
    rows: usize,
) -> std::fmt::Result {
    writeln!(text, "{}", recording.command.join(" "))?;
    writeln!(text)?;
    write_characteristics(text, &report.characteristics)?;
    write_hierarchy(text, &report.hierarchy)?;
    write_overheads(text, &report.characteristics)?;
    let several = report.processes.len() > 1;
    write_diagnosis(text, &report.diagnosis, rows)?;
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
        write_process(text, one, process, rows)?;
    }
    Ok(())
}

/// A row of time, and which part of the total it is.
fn write_part(text: &mut String, name: &str, ns: u64, total_ns: u64) -> std::fmt::Result {
    let part = ns as f64 * 100.0 / total_ns.max(1) as f64;
    writeln!(text, "{name:<26} {:>13.6} s  {part:>5.1} %", seconds(ns))
}

fn write_characteristics(text: &mut String, one: &Characteristics) -> std::fmt::Result {
    let total = one.total_ns();
    writeln!(text, "Execution time {:>25.6} s", seconds(one.execution_ns))?;
    writeln!(text, "Threads {:>25}", one.processors)?;
    write_part(text, "Total time", total, total)?;
    write_part(text, "Productive time", one.productive_ns(), total)?;
    write_part(text, "Idle time", one.idle_ns(), total)?;
    write_part(text, "Lost time", one.lost_ns(), total)?;
    let losses = one.losses();
    let insufficient = one.insufficient_parallelism_ns();
    if insufficient > 0 {
        write_part(text, "  insufficient parallelism", insufficient, total)?;
    }
    for class in LossClass::ALL {
        let ns = losses.get(*class);
        let indent = match class {
            LossClass::SerialPart | LossClass::Duplicated => "    ",
            _ => "  ",
        };
        if ns > 0 {
            let name = format!("{indent}{}", class.words());
            write_part(text, &name, ns, total)?;
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

/// Lost time by ompP's classes.
fn write_overheads(text: &mut String, one: &Characteristics) -> std::fmt::Result {
    let overheads = Overheads::of(&one.losses());
    let rows = [
        ("Imbalance", overheads.imbalance_ns),
        ("Synchronisation", overheads.synchronisation_ns),
        ("Limited parallelism", overheads.limited_parallelism_ns),
        ("Thread management", overheads.thread_management_ns),
    ];
    writeln!(text, "\nompP")?;
    rows.into_iter()
        .try_for_each(|(name, ns)| write_part(text, name, ns, one.total_ns()))
}

fn write_process(
    text: &mut String,
    one: &ProcessReport,
    process: &Process,
    rows: usize,
) -> std::fmt::Result {
    let execution = one.characteristics.execution_ns.max(1) as f64;
    writeln!(
        text,
        "\nWork on the critical path {:>14.6} s  {:>5.1} % of the execution time",
        seconds(one.critical_path_useful_ns),
        one.critical_path_useful_ns as f64 * 100.0 / execution
    )?;
    write_threads(text, one, rows)?;
    write_concurrency(text, one)?;
    write_diagnosis(text, &one.diagnosis, rows)?;
    write_intervals(text, one, rows)?;
    write_points(text, one, rows)?;
    if process.cancelled > 0 {
        writeln!(text, "\n{} constructs were cancelled", process.cancelled)?;
    }
    Ok(())
}

fn write_diagnosis(text: &mut String, findings: &[(f64, String)], rows: usize) -> std::fmt::Result {
    if findings.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nDiagnosis")?;
    for (_, sentence) in findings.iter().take(rows) {
        writeln!(text, "  * {sentence}")?;
    }
    write_hidden(text, findings.len(), rows)
}

fn write_threads(text: &mut String, one: &ProcessReport, rows: usize) -> std::fmt::Result {
    writeln!(
        text,
        "\nThreads: # productive, . lost to serial parts, - other losses"
    )?;
    let execution = one.characteristics.execution_ns.max(1) as f64;
    let length = |ns: u64| (ns as f64 / execution * BAR_WIDTH as f64).round() as usize;
    for thread in one.characteristics.threads.iter().take(rows) {
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
    write_hidden(text, one.characteristics.threads.len(), rows)
}

/// For how long how many threads worked at once.
fn write_concurrency(text: &mut String, one: &ProcessReport) -> std::fmt::Result {
    let Some(levels) = &one.concurrency_ns else {
        return Ok(());
    };
    writeln!(text, "\nThreads at work at once")?;
    let execution = one.characteristics.execution_ns.max(1) as f64;
    for (threads, ns) in levels.iter().enumerate().filter(|(_, ns)| **ns > 0) {
        let part = *ns as f64 / execution;
        let length = (part * BAR_WIDTH as f64).round() as usize;
        writeln!(
            text,
            "{threads:>4} |{:<BAR_WIDTH$}| {:>5.1} %  {:.6} s",
            "#".repeat(length.min(BAR_WIDTH)),
            part * 100.0,
            seconds(*ns)
        )?;
    }
    Ok(())
}

fn write_hidden(text: &mut String, all: usize, shown: usize) -> std::fmt::Result {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        hidden => writeln!(
            text,
            "  and {hidden} more; --rows {all} or --json shows all"
        ),
    }
}

fn write_intervals(text: &mut String, one: &ProcessReport, rows: usize) -> std::fmt::Result {
    if one.intervals.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "\n{:>12} {:>12} {:>12} {:>6} {:>9}  Interval",
        "Execution", "Productive", "Lost", "Eff.", "Count"
    )?;
    for interval in one.intervals.iter().take(rows) {
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
    write_hidden(text, one.intervals.len(), rows)
}

fn write_points(text: &mut String, one: &ProcessReport, rows: usize) -> std::fmt::Result {
    if one.points.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "\n{:>12} {:>12} {:>12} {:>10}  Synchronisation point",
        "Wait", "Average", "Longest", "Count"
    )?;
    for point in one.points.iter().take(rows) {
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
        write_call_path(text, &point.location, &point.call_path)?;
    }
    write_hidden(text, one.points.len(), rows)?;
    let shown = one.points.iter().take(rows);
    if shown.map(|point| &point.location).any(is_address) {
        writeln!(
            text,
            "\nPlaces without a line are addresses in their files: compile with -g to see lines of the \
             source"
        )?;
    }
    Ok(())
}

/// The calls that first led to a place, behind the one that is the place itself.
fn write_call_path(text: &mut String, place: &Location, calls: &[Location]) -> std::fmt::Result {
    let calls = match calls {
        [first, outer @ ..] if first == place => outer,
        calls => calls,
    };
    for (index, call) in calls.iter().take(SHOWN_CALLS).enumerate() {
        let function = call.short_function().filter(|_| call.file.is_some());
        let before = match index {
            0 => format!("{:>51}called from ", ""),
            _ => ", ".to_owned(),
        };
        write!(text, "{before}{}", call.short())?;
        if let Some(name) = function {
            write!(text, " in {name}")?;
        }
    }
    match calls.len() {
        0 => Ok(()),
        all if all > SHOWN_CALLS => writeln!(text, ", \u{2026}"),
        _ => writeln!(text),
    }
}

/// Whether only an address is known of a place, because nothing says which line it is.
fn is_address(place: &Location) -> bool {
    place.line.is_none() && !place.module.is_empty()
}
