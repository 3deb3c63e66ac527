//! The limits that the project holds itself to; `bench/README.md` gives them in words.

use serde::Serialize;

use super::catalogue::Sharing;
use super::results::{ColumnResult, Figure, ProgramResult, RatioSummary};
use super::variant::{Mode, ToolLimit};

/// Memory over native that every program is granted.
const FIXED_MEMORY_BYTES: f64 = 64e6;

/// Memory over native for each byte of machine code that was translated.
const MEMORY_PER_CODE_BYTE: f64 = 10.0;

/// Whether a limit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// It holds.
    Met,
    /// It does not.
    Missed,
    /// Nothing was measured that tells.
    NotMeasured,
    /// The rounds that were measured do not agree.
    Unsteady,
}

/// A limit, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// What is limited.
    pub(crate) limit: String,
    /// Whether it holds.
    pub(crate) state: State,
    /// The figures.
    pub(crate) measured: String,
}

/// Judges all limits.
pub(crate) fn judge(programs: &[ProgramResult]) -> Vec<Verdict> {
    let cpu = |mode: Mode| {
        move |program: &ProgramResult| {
            // Applications have limits of their own.
            let column = program.column(mode);
            column.filter(|_| program.run_limit.is_none())?.figure()
        }
    };
    let mut verdicts = vec![
        at_most(
            "run: mean",
            1.25,
            RatioSummary::of(programs, cpu(Mode::Run)),
            Side::Mean,
        ),
        at_most(
            "run: worst",
            2.0,
            RatioSummary::of(programs, cpu(Mode::Run)),
            Side::Greatest,
        ),
        at_most(
            "trace discarded, ticket order: mean",
            2.2,
            RatioSummary::of(programs, cpu(Mode::TicketDiscard)),
            Side::Mean,
        ),
        at_most(
            "trace written, ticket order: mean",
            6.0,
            RatioSummary::of(programs, cpu(Mode::TicketFile)),
            Side::Mean,
        ),
    ];
    for (sharing, word, limit) in [
        (Sharing::Little, "little", 1.4),
        (Sharing::Much, "much", 3.0),
    ] {
        for (what, exact, cheap) in [
            ("discarded", Mode::LineAtomicDiscard, Mode::TicketDiscard),
            ("written", Mode::LineAtomicFile, Mode::TicketFile),
        ] {
            let summary = RatioSummary::of(programs, |program| {
                if program.sharing != sharing {
                    return None;
                }
                Some(cpu(exact)(program)?.over(cpu(cheap)(program)?))
            });
            let name = format!("line-atomic over ticket, {what}, threads share {word}: mean");
            verdicts.push(at_most(&name, limit, summary, Side::Mean));
        }
    }
    for (name, limit, only) in [
        (
            "openmp, an embarrassingly parallel kernel",
            1.01,
            Some("embarrassingly_parallel"),
        ),
        ("openmp: worst", 1.05, None),
    ] {
        let summary = RatioSummary::of(programs, |program| {
            let is_meant = only.is_none_or(|only| program.name == only);
            program.column(Mode::Openmp).filter(|_| is_meant)?.figure()
        });
        verdicts.push(at_most(name, limit, summary, Side::Greatest));
    }
    for tool in Mode::TOOLS {
        let (base, limit) = match tool.limit {
            ToolLimit::OverNative(limit) => (None, limit),
            ToolLimit::OverNothing(limit) => (Some(Mode::NOTHING_INSERTED), limit),
            ToolLimit::Unlimited => continue,
        };
        let name = match base {
            None => format!("{}: mean", tool.described()),
            Some(_) => format!("{} over nothing inserted: mean", tool.described()),
        };
        let summary = RatioSummary::of(programs, |program| {
            let base = base.map_or(Some(Figure::certain(1.0)), |base| cpu(base)(program))?;
            Some(cpu(Mode::Tool(tool))(program)?.over(base))
        });
        verdicts.push(at_most(&name, limit, summary, Side::Mean));
    }
    verdicts.push(at_most(
        "bytes an access, ticket order: all together",
        0.8,
        RatioSummary::together(programs, |program| {
            let facts = program.column(Mode::TicketFile)?.trace.as_ref()?;
            (facts.accesses > 0).then_some((facts.bytes as f64, facts.accesses as f64))
        }),
        Side::Mean,
    ));
    verdicts.push(at_least(
        "million accesses read back a second and core: all together",
        50.0,
        RatioSummary::together(programs, |program| {
            let facts = program.column(Mode::TicketFile)?.trace.as_ref()?;
            let millions = facts.accesses as f64 / 1e6;
            Some((
                millions,
                facts.accesses as f64 / facts.accesses_read_per_cpu_s?,
            ))
        }),
    ));
    verdicts.push(memory(programs));
    verdicts.extend(applications(programs));
    verdicts
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
fn application(name: String, limit: f64, column: Option<&ColumnResult>) -> Verdict {
    let found = column.and_then(|column| Some((column, column.cpu_ratio?)));
    let Some((column, ratio)) = found else {
        return Verdict {
            limit: name,
            state: State::NotMeasured,
            measured: "nothing that counts".to_owned(),
        };
    };
    let doubt = column.doubt();
    let state = match doubt {
        Some(_) => State::Unsteady,
        None if ratio <= limit => State::Met,
        None => State::Missed,
    };
    let median = column.median_cpu_ratio.unwrap_or(f64::NAN);
    let doubt = doubt.map_or(String::new(), |doubt| format!(", but {doubt}"));
    Verdict {
        limit: name,
        state,
        measured: format!("least {ratio:.2}, median {median:.2}{doubt}"),
    }
}

/// Which figure of a summary is limited.
#[derive(Debug, Clone, Copy)]
enum Side {
    Mean,
    Greatest,
}

fn at_most(name: &str, limit: f64, summary: Option<RatioSummary>, side: Side) -> Verdict {
    verdict(
        format!("{name} <= {limit}"),
        summary,
        |summary| match side {
            Side::Mean => summary.mean <= limit,
            Side::Greatest => summary.greatest.0 <= limit,
        },
    )
}

fn at_least(name: &str, limit: f64, summary: Option<RatioSummary>) -> Verdict {
    verdict(format!("{name} >= {limit}"), summary, |summary| {
        summary.mean >= limit
    })
}

fn verdict(
    limit: String,
    summary: Option<RatioSummary>,
    holds: impl Fn(&RatioSummary) -> bool,
) -> Verdict {
    match summary {
        None => Verdict {
            limit,
            state: State::NotMeasured,
            measured: "nothing that counts".to_owned(),
        },
        Some(summary) => Verdict {
            limit,
            state: if holds(&summary) {
                State::Met
            } else {
                State::Missed
            },
            measured: format!(
                "mean {:.3}, least {:.3} ({}), greatest {:.3} ({}){}",
                summary.mean,
                summary.least.0,
                summary.least.1,
                summary.greatest.0,
                summary.greatest.1,
                without(&summary.left_out)
            ),
        },
    }
}

/// Names the programs that a summary leaves out.
fn without(left_out: &[&str]) -> String {
    match left_out {
        [] => String::new(),
        names => format!("; rounds do not agree, left out: {}", names.join(", ")),
    }
}

/// Each program has a limit of its own here, so that all of them are looked at.
fn memory(programs: &[ProgramResult]) -> Verdict {
    let limit = "memory over native <= 64 MB + 10 bytes a translated byte + buffers".to_owned();
    let (mut missed, mut unknown, mut greatest) = (Vec::new(), Vec::new(), None::<(f64, &str)>);
    for program in programs
        .iter()
        .filter(|program| program.run_limit.is_none())
    {
        let facts = program
            .column(Mode::TicketFile)
            .and_then(|column| column.trace.as_ref());
        let code = facts.and_then(|facts| facts.translated_code_bytes);
        let buffers = facts.and_then(|facts| facts.buffer_bytes).unwrap_or(0) as f64;
        for mode in [Mode::Run, Mode::TicketDiscard, Mode::TicketFile] {
            let Some(over) = program
                .column(mode)
                .and_then(|column| column.memory_over_native_bytes)
            else {
                continue;
            };
            let over = over as f64;
            if greatest.is_none_or(|(most, _)| over > most) {
                greatest = Some((over, program.name));
            }
            let described = format!("{} {}: {:.1} MB", program.name, mode.name(), over / 1e6);
            let buffers = if mode == Mode::Run { 0.0 } else { buffers };
            match code {
                Some(code)
                    if over > FIXED_MEMORY_BYTES + MEMORY_PER_CODE_BYTE * code as f64 + buffers =>
                {
                    missed.push(described);
                }
                None if over > FIXED_MEMORY_BYTES + buffers => unknown.push(described),
                _ => {}
            }
        }
    }
    let Some((most, program)) = greatest else {
        return Verdict {
            limit,
            state: State::NotMeasured,
            measured: "nothing that counts".to_owned(),
        };
    };
    let (state, measured) = if !missed.is_empty() {
        (State::Missed, missed.join(", "))
    } else if !unknown.is_empty() {
        let list = unknown.join(", ");
        (
            State::NotMeasured,
            format!("{list}, but the size of the translated code is not known"),
        )
    } else {
        (
            State::Met,
            format!("greatest {:.1} MB ({program})", most / 1e6),
        )
    };
    Verdict {
        limit,
        state,
        measured,
    }
}

#[cfg(test)]
mod tests;
