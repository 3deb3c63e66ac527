//! Results for people: text and Markdown from the same tables.

use super::figure::Figure;
use super::limits::State;
use super::results::{ColumnResult, ProgramResult, Results};
use super::statistics::median;
use super::summary::{Counted, RatioSummary};
use super::table::Table;
use super::variant::Mode;

/// For a terminal.
pub(crate) fn text(results: &Results) -> String {
    let mut text = format!("{}\n{}\n", results.machine.describe(), conditions(results));
    for table in tables(results) {
        text.push('\n');
        text.push_str(&table.to_text());
    }
    for (title, lines) in lists(results) {
        text.push_str(&format!("\n{title}\n"));
        for line in lines {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

/// For `bench/results`.
pub(crate) fn markdown(results: &Results) -> String {
    let mut text = format!(
        "# Measurements of {}\n\n{}\n\n{}\n",
        results.machine.date,
        results.machine.describe(),
        conditions(results)
    );
    for table in tables(results) {
        text.push('\n');
        text.push_str(&table.to_markdown());
    }
    for (title, lines) in lists(results) {
        text.push_str(&format!("\n### {title}\n\n"));
        for line in lines {
            text.push_str(&format!("- {line}\n"));
        }
    }
    text
}

fn conditions(results: &Results) -> String {
    format!(
        "{} sizes; each program {} times in each mode, in turn. CPU time is user and system \
         time of the whole process tree, and its ratios are of the least; others are of medians. \
         Means are of programs that are no applications; they leave out figures whose rounds do \
         not agree, and what was not observed.",
        if results.small { "Small" } else { "Full" },
        results.runs
    )
}

fn tables(results: &Results) -> Vec<Table> {
    let programs = &results.programs;
    let mut tables = vec![
        ratios("CPU time over native", programs, ColumnResult::cpu),
        ratios("Wall time over native", programs, ColumnResult::wall),
        spreads(programs),
    ];
    if programs
        .iter()
        .flat_map(|program| &program.columns)
        .any(|column| column.variant.is_other_build)
    {
        tables.push(ratios(
            "CPU time over the other build's, paired",
            programs,
            ColumnResult::to_other_build,
        ));
    }
    tables.extend(rounds(programs));
    tables.extend(traces(programs));
    tables.push(memory(programs));
    tables.extend(tree_memory(programs));
    tables
}

/// How far the rounds of each figure of CPU time over native lie apart, and those natively.
fn spreads(programs: &[ProgramResult]) -> Table {
    by_program(
        "Spread of CPU time over native, round by round",
        programs,
        |column| percent(column.cpu_ratios_spread),
    )
}

/// A figure, with what speaks against it.
fn told(figure: &Figure, digits: usize) -> String {
    match (figure.value(), figure.doubt()) {
        (None, _) => String::new(),
        (Some(value), None) => format!("{value:.digits$}"),
        (Some(value), Some(doubt)) => format!("{value:.digits$} ({doubt})"),
    }
}

fn percent(part: Option<f64>) -> String {
    part.map_or(String::new(), |part| format!("{:.0} %", part * 100.0))
}

/// How the rounds of applications, which have limits of their own, lie apart.
fn rounds(programs: &[ProgramResult]) -> Option<Table> {
    let applications = programs
        .iter()
        .filter(|program| program.run_limit.is_some());
    let rows: Vec<_> = applications
        .flat_map(|program| program.columns.iter().map(move |column| (program, column)))
        .filter(|(_, column)| !column.cpu_s.is_empty())
        .map(|(program, column)| rounds_of(program.name, column))
        .collect();
    let header = [
        "program and mode",
        "least",
        "median",
        "spread",
        "least over least",
        "rounds over native",
        "counts",
    ];
    (!rows.is_empty()).then(|| Table {
        title: "CPU time of the rounds".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows,
    })
}

fn rounds_of(program: &str, column: &ColumnResult) -> Vec<String> {
    let figure = |value: Option<f64>, unit: &str| {
        value.map_or(String::new(), |value| format!("{value:.2}{unit}"))
    };
    let all: Vec<_> = column
        .cpu_ratios
        .iter()
        .map(|one| format!("{one:.2}"))
        .collect();
    let counts = match &column.cpu_doubt {
        None => "yes".to_owned(),
        Some(doubt) => format!("no: {doubt}"),
    };
    vec![
        format!("{program} {}", column.label),
        figure(column.least_cpu_s, " s"),
        figure(median(&column.cpu_s), " s"),
        percent(column.cpu_spread),
        figure(column.cpu_ratio, ""),
        all.join(" "),
        counts,
    ]
}

/// Programs by variants. A program that was not run in one has an empty cell there.
fn by_program(
    title: &str,
    programs: &[ProgramResult],
    cell: impl Fn(&ColumnResult) -> String,
) -> Table {
    let mut header = ["program", "native", "spread"].map(str::to_owned).to_vec();
    let labels = labels(programs);
    header.extend(labels.iter().map(|label| (*label).to_owned()));
    let rows = measured(programs).map(|program| {
        let native = &program.columns[0];
        let seconds = median(&native.cpu_s).map_or(String::new(), |time| format!("{time:.2} s"));
        let mut row = vec![program.name.to_owned(), seconds, percent(native.cpu_spread)];
        row.extend(labels.iter().map(|label| match at(program, label) {
            None => String::new(),
            Some(column) if column.cpu_s.is_empty() && !column.problems.is_empty() => {
                "failed".to_owned()
            }
            Some(column) => cell(column),
        }));
        row
    });
    Table {
        title: title.to_owned(),
        rows: rows.collect(),
        header,
    }
}

/// The programs that were measured.
fn measured(programs: &[ProgramResult]) -> impl Iterator<Item = &ProgramResult> {
    programs
        .iter()
        .filter(|program| !program.columns.is_empty())
}

/// The headings of all columns but native. Not every program is run in every variant.
fn labels(programs: &[ProgramResult]) -> Vec<&str> {
    let mut labels = Vec::new();
    for column in measured(programs).flat_map(|program| &program.columns[1..]) {
        if !labels.contains(&column.label.as_str()) {
            labels.push(&column.label);
        }
    }
    labels
}

fn at<'a>(program: &'a ProgramResult, label: &str) -> Option<&'a ColumnResult> {
    let columns = program.columns.iter().skip(1);
    columns.into_iter().find(|column| column.label == label)
}

/// Figures of programs by variants, with mean and extremes below. Each that does not count says
/// so.
fn ratios(
    title: &str,
    programs: &[ProgramResult],
    figure: impl Fn(&ColumnResult) -> Figure,
) -> Table {
    let mut table = by_program(title, programs, |column| told(&figure(column), 2));
    let summaries: Vec<RatioSummary> = labels(programs)
        .iter()
        .map(|label| {
            RatioSummary::of(programs, |program| {
                let column = at(program, label);
                let missing = || Figure::Missing("not observed".to_owned());
                let is_meant = match column {
                    Some(column) => program.is_meant_by(column.variant.mode),
                    None => !program.is_application() && program.skipped.is_some(),
                };
                is_meant.then(|| column.map_or_else(missing, &figure))
            })
        })
        .collect();
    let mut add_summary = |name: &str, figure: fn(&Counted) -> f64| {
        let cells = summaries.iter().map(|summary| {
            let counted = summary.counted.as_ref();
            counted.map_or(String::new(), |counted| format!("{:.2}", figure(counted)))
        });
        table.rows.push(below(name, cells));
    };
    add_summary("geometric mean", |counted| counted.mean);
    add_summary("least", |counted| counted.least.0);
    add_summary("greatest", |counted| counted.greatest.0);
    let counts = summaries.iter().map(|summary| {
        let counted = summary.counted.as_ref();
        let programs = counted.map_or(0, |counted| counted.programs);
        format!("{programs} of {}", summary.programs())
    });
    table.rows.push(below("programs that count", counts));
    table
}

/// A row below the programs.
fn below(name: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    let mut row = vec![name.to_owned(), String::new(), String::new()];
    row.extend(cells);
    row
}

/// One table for each mode that writes traces.
fn traces(programs: &[ProgramResult]) -> Vec<Table> {
    let mut tables = Vec::new();
    for mode in [Mode::TicketFile, Mode::LineAtomicFile] {
        let mut rows = Vec::new();
        for program in programs {
            let Some(column) = program.column(mode) else {
                continue;
            };
            let Some(facts) = column.last_trace() else {
                continue;
            };
            let bytes = column.bytes_and_accesses();
            let speed = column.seconds_and_accesses();
            rows.push(vec![
                program.name.to_owned(),
                facts.files.to_string(),
                format!("{:.1}", facts.accesses as f64 / 1e6),
                format!("{:.1}", facts.bytes as f64 / 1e6),
                told(&bytes.map(|(bytes, accesses)| bytes / accesses), 4),
                told(&speed.map(|(time, accesses)| accesses / 1e6 / time), 1),
            ]);
        }
        if !rows.is_empty() {
            let header = [
                "program",
                "files",
                "M accesses",
                "MB",
                "bytes/access",
                "M accesses/s read",
            ];
            tables.push(Table {
                title: format!("Traces, {}", mode.name()),
                header: header.map(str::to_owned).to_vec(),
                rows,
            });
        }
    }
    tables
}

fn memory(programs: &[ProgramResult]) -> Table {
    let mut table = by_program(
        "Memory of the largest process over native, in MB",
        programs,
        |column| {
            let over = column.memory_over_native_bytes;
            over.map_or(String::new(), |bytes| format!("{:.2}", bytes as f64 / 1e6))
        },
    );
    // Native time does not belong here, but native memory does.
    table.header.remove(2);
    for (row, program) in table.rows.iter_mut().zip(measured(programs)) {
        let peaks: Vec<f64> = program.columns[0]
            .largest_process_bytes
            .iter()
            .map(|bytes| *bytes as f64 / 1e6)
            .collect();
        row.remove(2);
        row[1] = median(&peaks).map_or(String::new(), |peak| format!("{peak:.1}"));
    }
    table
}

/// What `--memory` sampled.
fn tree_memory(programs: &[ProgramResult]) -> Option<Table> {
    let mut rows = Vec::new();
    for program in programs {
        for column in &program.columns {
            let Some(peaks) = &column.peaks else {
                continue;
            };
            let by_program: Vec<String> = peaks
                .by_program
                .iter()
                .map(|(name, bytes)| format!("{name} {:.1}", *bytes as f64 / 1e6))
                .collect();
            rows.push(vec![
                format!("{} {}", program.name, column.label),
                format!("{:.1}", peaks.tree_bytes as f64 / 1e6),
                by_program.join(", "),
            ]);
        }
    }
    let header = [
        "program and mode",
        "tree",
        "largest process of each program",
    ];
    (!rows.is_empty()).then(|| Table {
        title: "Memory of the process tree, in MB".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows,
    })
}

/// Everything that is not a figure; empty lists are left out.
fn lists(results: &Results) -> Vec<(&'static str, Vec<String>)> {
    let verdicts = results.verdicts.iter().map(|verdict| {
        let state = match verdict.state {
            State::Met => "met",
            State::Missed => "MISSED",
            State::NotMeasured => "not measured",
            State::Unsteady => "UNSTEADY",
        };
        format!("{state}: {} ({})", verdict.limit, verdict.measured)
    });
    let failures = results.programs.iter().flat_map(|program| {
        program.columns.iter().flat_map(move |column| {
            let name = program.name;
            column
                .problems
                .iter()
                .map(move |problem| format!("{name}, {}: {problem}", column.label))
        })
    });
    let skipped = results.programs.iter().filter_map(|program| {
        program
            .skipped
            .as_ref()
            .map(|reason| format!("{}: {reason}", program.name))
    });
    let lists: [(&'static str, Vec<String>); 4] = [
        ("Limits", verdicts.collect()),
        ("Failures", failures.collect()),
        ("Skipped", skipped.collect()),
        ("Notes", results.notes.clone()),
    ];
    lists
        .into_iter()
        .filter(|(_, lines)| !lines.is_empty())
        .collect()
}

#[cfg(test)]
mod tests;
