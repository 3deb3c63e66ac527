//! The limits that the project holds itself to; `bench/README.md` gives them in words.

mod memory;
mod verdict;

pub(crate) use verdict::{State, Verdict};

use super::catalogue::{INTERPRETERS, Sharing};
use super::figure::Figure;
use super::results::{ColumnResult, ProgramResult};
use super::summary::RatioSummary;
use super::variant::{Mode, ToolLimit};
use verdict::{Bound, verdict};

/// Judges all limits. They are of full sizes: what small ones cost is told and judges nothing.
pub(crate) fn judge(programs: &[ProgramResult], small: bool) -> Vec<Verdict> {
    let mut verdicts = means(programs);
    verdicts.extend(orders(programs));
    verdicts.extend(openmp(programs));
    verdicts.extend(tools(programs));
    verdicts.extend(traces(programs));
    verdicts.push(memory::memory(programs));
    verdicts.extend(applications(programs));
    for verdict in verdicts.iter_mut().filter(|_| small) {
        verdict.state = State::NotMeasured;
        verdict
            .measured
            .push_str("; at small sizes, which do not tell");
    }
    verdicts
}

/// One mode over another, of the programs that are meant.
fn over(
    programs: &[ProgramResult],
    mode: Mode,
    base: Mode,
    is_meant: impl Fn(&ProgramResult) -> bool,
) -> RatioSummary {
    RatioSummary::of(programs, |program| {
        let is_meant = is_meant(program);
        is_meant.then(|| program.over(mode, base)).flatten()
    })
}

/// What a mode costs over native, of all programs.
fn over_native(programs: &[ProgramResult], mode: Mode) -> RatioSummary {
    over(programs, mode, Mode::Native, |_| true)
}

/// Running, and recording in the cheapest order between threads.
fn means(programs: &[ProgramResult]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, mode, mean, each) in [
        ("run", Mode::Run, 1.25, Some(2.0)),
        (
            "trace discarded, ticket order",
            Mode::TicketDiscard,
            1.8,
            None,
        ),
        (
            "trace written, ticket order",
            Mode::TicketFile,
            6.0,
            Some(12.0),
        ),
    ] {
        let summary = over_native(programs, mode);
        let name_of_mean = format!("{name}: mean");
        verdicts.push(verdict(&name_of_mean, Bound::MeanAtMost(mean), &summary));
        if let Some(each) = each {
            let name = format!("{name}: worst");
            verdicts.push(verdict(&name, Bound::EachAtMost(each), &summary));
        }
    }
    verdicts
}

/// The exact order between threads, over the cheap one.
fn orders(programs: &[ProgramResult]) -> Vec<Verdict> {
    let both = [
        ("discarded", Mode::LineAtomicDiscard, Mode::TicketDiscard),
        ("written", Mode::LineAtomicFile, Mode::TicketFile),
    ];
    let mut verdicts = Vec::new();
    for (sharing, word, limit) in [
        (Sharing::Little, "little", 1.3),
        (Sharing::Much, "much", 3.0),
    ] {
        for (what, exact, cheap) in both {
            let summary = over(programs, exact, cheap, |program| program.sharing == sharing);
            let name = format!("line-atomic over ticket, {what}, threads share {word}: mean");
            verdicts.push(verdict(&name, Bound::MeanAtMost(limit), &summary));
        }
    }
    for (what, exact, cheap) in both {
        let only = "conjugate_gradient";
        let summary = over(programs, exact, cheap, |program| program.name == only);
        let name = format!("line-atomic over ticket, {what}, {only}");
        verdicts.push(verdict(&name, Bound::EachAtMost(2.2), &summary));
    }
    verdicts
}

/// Collecting from native OpenMP programs.
fn openmp(programs: &[ProgramResult]) -> Vec<Verdict> {
    let only = "embarrassingly_parallel";
    let one = over(programs, Mode::Openmp, Mode::Native, |program| {
        program.name == only
    });
    let all = over_native(programs, Mode::Openmp);
    let name = "openmp, an embarrassingly parallel kernel";
    vec![
        verdict(name, Bound::EachAtMost(1.01), &one),
        verdict("openmp: worst", Bound::EachAtMost(1.05), &all),
    ]
}

/// Tools and probes.
fn tools(programs: &[ProgramResult]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for tool in Mode::TOOLS {
        let (base, limit, over_what) = match tool.limit {
            ToolLimit::OverNative(limit) => (Mode::Native, limit, ""),
            ToolLimit::OverNothing(limit) => {
                (Mode::NOTHING_INSERTED, limit, " over nothing inserted")
            }
            ToolLimit::Unlimited => continue,
        };
        let name = format!("{}{over_what}: mean", tool.described());
        let summary = over(programs, Mode::Tool(tool), base, |_| true);
        verdicts.push(verdict(&name, Bound::MeanAtMost(limit), &summary));
        if let Some(limit) = tool.interpreter_limit {
            let name = format!("{}{over_what}: worst interpreter", tool.described());
            let summary = over(programs, Mode::Tool(tool), base, |program| {
                INTERPRETERS.contains(&program.name)
            });
            verdicts.push(verdict(&name, Bound::EachAtMost(limit), &summary));
        }
    }
    verdicts
}

/// The size of traces, and how fast they are read back.
fn traces(programs: &[ProgramResult]) -> Vec<Verdict> {
    let together = |figure: fn(&ColumnResult) -> Figure<(f64, f64)>| {
        RatioSummary::together(programs, |program| {
            let is_meant = program.is_meant_by(Mode::TicketFile);
            is_meant.then(|| match program.observed(Mode::TicketFile) {
                Ok(column) => figure(column),
                Err(reason) => Figure::Missing(reason),
            })
        })
    };
    let bytes = together(ColumnResult::bytes_and_accesses);
    let speed = together(|column| {
        let cost = column.seconds_and_accesses();
        cost.map(|(seconds, accesses)| (accesses / 1e6, seconds))
    });
    vec![
        verdict(
            "bytes an access, ticket order: all together",
            Bound::MeanAtMost(0.8),
            &bytes,
        ),
        verdict(
            "million accesses read back a second and core: all together",
            Bound::MeanAtLeast(50.0),
            &speed,
        ),
    ]
}

/// The limits of those applications that this machine has.
fn applications(programs: &[ProgramResult]) -> impl Iterator<Item = Verdict> {
    let installed = programs.iter().filter(|program| program.skipped.is_none());
    installed.filter_map(|program| {
        let limit = program.run_limit?;
        let name = format!("run, application {} <= {limit}", program.name);
        Some(application(name, limit, program.column(Mode::Run)))
    })
}

/// What is found of one figure.
fn application(limit_name: String, limit: f64, column: Option<&ColumnResult>) -> Verdict {
    let figure = column.map(ColumnResult::cpu);
    let state = match &figure {
        None | Some(Figure::Missing(_)) => State::NotMeasured,
        Some(Figure::Doubtful(..)) => State::Unsteady,
        Some(Figure::Counts(ratio)) if *ratio <= limit => State::Met,
        Some(Figure::Counts(_)) => State::Missed,
    };
    let found = column.and_then(|column| Some((column.cpu_ratio?, column.median_cpu_ratio?)));
    let doubt = figure.and_then(|figure| figure.doubt());
    let measured = match found {
        None => "nothing that counts".to_owned(),
        Some((least, median)) => {
            let doubt = doubt.map_or(String::new(), |doubt| format!(", but {doubt}"));
            format!("least {least:.2}, median {median:.2}{doubt}")
        }
    };
    Verdict {
        limit: limit_name,
        state,
        measured,
    }
}

#[cfg(test)]
mod tests;
