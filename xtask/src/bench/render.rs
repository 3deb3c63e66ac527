//! Results for people: text and Markdown from the same tables.

use super::limits::State;
use super::results::{ColumnResult, Figure, ProgramResult, RatioSummary, Results};
use super::statistics::{least, median};
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
         Means leave out figures whose rounds do not agree.",
        if results.small { "Small" } else { "Full" },
        results.runs
    )
}

fn tables(results: &Results) -> Vec<Table> {
    let programs = &results.programs;
    let mut tables = vec![
        cpu_ratios(programs),
        ratios("Wall time over native", programs, |column| {
            column.wall_ratio.map(Figure::certain)
        }),
    ];
    if programs
        .iter()
        .flat_map(|program| &program.columns)
        .any(|column| column.variant.is_other_build)
    {
        tables.push(ratios(
            "CPU time over the other build's, paired",
            programs,
            |column| column.ratio_to_other_build.map(Figure::certain),
        ));
    }
    tables.extend(rounds(programs));
    tables.extend(traces(programs));
    tables.push(memory(programs));
    tables.extend(tree_memory(programs));
    tables
}

/// Those of CPU time, of which each that does not count says so.
fn cpu_ratios(programs: &[ProgramResult]) -> Table {
    let mut table = ratios("CPU time over native", programs, ColumnResult::figure);
    let measured = programs
        .iter()
        .filter(|program| !program.columns.is_empty());
    for (row, program) in table.rows.iter_mut().zip(measured) {
        for (cell, column) in row[3..].iter_mut().zip(&program.columns[1..]) {
            if let Some(doubt) = column.doubt().filter(|_| column.cpu_ratio.is_some()) {
                cell.push_str(&format!(" ({doubt})"));
            }
        }
    }
    table
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
    let counts = match column.doubt() {
        None => "yes".to_owned(),
        Some(doubt) => format!("no: {doubt}"),
    };
    vec![
        format!("{program} {}", column.label),
        figure(least(&column.cpu_s), " s"),
        figure(median(&column.cpu_s), " s"),
        column
            .spread()
            .map_or(String::new(), |part| format!("{:.0} %", part * 100.0)),
        figure(column.cpu_ratio, ""),
        all.join(" "),
        counts,
    ]
}

/// Programs by variants, with mean and extremes below.
fn ratios(
    title: &str,
    programs: &[ProgramResult],
    value: impl Fn(&ColumnResult) -> Option<Figure>,
) -> Table {
    let measured: Vec<&ProgramResult> = programs
        .iter()
        .filter(|program| !program.columns.is_empty())
        .collect();
    let labels: Vec<&str> = measured.first().map_or(Vec::new(), |program| {
        program
            .columns
            .iter()
            .skip(1)
            .map(|column| column.label.as_str())
            .collect()
    });
    let value_at = |program: &ProgramResult, position: usize| value(program.columns.get(position)?);

    let mut header = vec![
        "program".to_owned(),
        "native".to_owned(),
        "spread".to_owned(),
    ];
    header.extend(labels.iter().map(|label| (*label).to_owned()));
    let mut rows = Vec::new();
    for program in &measured {
        let native = &program.columns[0];
        let seconds = median(&native.cpu_s).map_or(String::new(), |time| format!("{time:.2} s"));
        let spread = native
            .spread()
            .map_or(String::new(), |part| format!("{:.0} %", part * 100.0));
        let mut row = vec![program.name.to_owned(), seconds, spread];
        for (position, column) in program.columns.iter().enumerate().skip(1) {
            row.push(match value_at(program, position) {
                Some(Figure { value, .. }) => format!("{value:.2}"),
                None if column.problems.is_empty() => String::new(),
                None => "failed".to_owned(),
            });
        }
        rows.push(row);
    }
    let summaries: Vec<Option<RatioSummary>> = (1..=labels.len())
        .map(|position| RatioSummary::of(programs, |program| value_at(program, position)))
        .collect();
    let mut add_summary = |name: &str, figure: fn(&RatioSummary) -> f64| {
        let mut row = vec![name.to_owned(), String::new(), String::new()];
        row.extend(summaries.iter().map(|summary| {
            summary
                .as_ref()
                .map_or(String::new(), |summary| format!("{:.2}", figure(summary)))
        }));
        rows.push(row);
    };
    add_summary("geometric mean", |summary| summary.mean);
    add_summary("least", |summary| summary.least.0);
    add_summary("greatest", |summary| summary.greatest.0);
    Table {
        title: title.to_owned(),
        header,
        rows,
    }
}

/// One table for each mode that writes traces.
fn traces(programs: &[ProgramResult]) -> Vec<Table> {
    let mut tables = Vec::new();
    for mode in [Mode::TicketFile, Mode::LineAtomicFile] {
        let mut rows = Vec::new();
        for program in programs {
            let Some(facts) = program
                .column(mode)
                .and_then(|column| column.trace.as_ref())
            else {
                continue;
            };
            let figure = |value: Option<f64>, digits: usize| {
                value.map_or(String::new(), |value| format!("{value:.digits$}"))
            };
            rows.push(vec![
                program.name.to_owned(),
                facts.files.to_string(),
                format!("{:.1}", facts.accesses as f64 / 1e6),
                format!("{:.1}", facts.bytes as f64 / 1e6),
                figure(facts.bytes_per_access(), 4),
                figure(facts.accesses_read_per_cpu_s.map(|speed| speed / 1e6), 1),
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
    let mut table = ratios(
        "Memory of the largest process over native, in MB",
        programs,
        |column| {
            Some(Figure::certain(
                column.memory_over_native_bytes? as f64 / 1e6,
            ))
        },
    );
    // Means of differences say nothing; the extremes can be seen.
    table.rows.truncate(table.rows.len() - 3);
    // Nor does native time belong here, but native memory does.
    table.header.remove(2);
    for (row, program) in table.rows.iter_mut().zip(
        programs
            .iter()
            .filter(|program| !program.columns.is_empty()),
    ) {
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
