//! Whether a limit holds, and the figures that say so.

use serde::Serialize;

use crate::bench::summary::{Counted, RatioSummary};

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
    /// The rounds that were measured do not agree, or are too few.
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

/// Which figure of a summary is limited, and by what.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    /// The mean is at most that.
    MeanAtMost(f64),
    /// The mean is at least that.
    MeanAtLeast(f64),
    /// No program's figure is above that.
    EachAtMost(f64),
}

impl Bound {
    fn words(self) -> String {
        match self {
            Bound::MeanAtMost(limit) | Bound::EachAtMost(limit) => format!("<= {limit}"),
            Bound::MeanAtLeast(limit) => format!(">= {limit}"),
        }
    }

    fn holds(self, counted: &Counted) -> bool {
        match self {
            Bound::MeanAtMost(limit) => counted.mean <= limit,
            Bound::MeanAtLeast(limit) => counted.mean >= limit,
            Bound::EachAtMost(limit) => counted.greatest.0 <= limit,
        }
    }

    /// A mean says what those programs cost that count. That no program is above a limit is not
    /// known while one was above it in rounds that do not agree.
    fn is_doubted_by(self, value: f64) -> bool {
        match self {
            Bound::MeanAtMost(_) | Bound::MeanAtLeast(_) => false,
            Bound::EachAtMost(limit) => value > limit,
        }
    }
}

/// Judges one limit.
pub(super) fn verdict(name: &str, bound: Bound, summary: &RatioSummary) -> Verdict {
    let doubtful = || summary.left_out.iter().filter_map(|program| program.value);
    let state = match &summary.counted {
        Some(counted) if !bound.holds(counted) => State::Missed,
        Some(_) if doubtful().any(|value| bound.is_doubted_by(value)) => State::Unsteady,
        Some(_) => State::Met,
        None if doubtful().next().is_some() => State::Unsteady,
        None => State::NotMeasured,
    };
    let figures = match &summary.counted {
        None => "nothing that counts".to_owned(),
        Some(counted) => {
            let (least, greatest) = (counted.least, counted.greatest);
            format!(
                "mean {:.3} of {} of {} programs, least {:.3} ({}), greatest {:.3} ({})",
                counted.mean,
                counted.programs,
                summary.programs(),
                least.0,
                least.1,
                greatest.0,
                greatest.1
            )
        }
    };
    Verdict {
        limit: format!("{name} {}", bound.words()),
        state,
        measured: format!("{figures}{}", summary.without()),
    }
}
