//! Runs that count, and runs that a busy machine disturbed.
//!
//! Planted programs sleep, and say at their end how long they took and how late they were
//! woken. A run that fits the plan closely is right, whatever the machine did. If one does
//! not, the program's own clock decides: an undisturbed run was as planted, so that the
//! report is wrong. It may be so a few times, because a program does not see every delay (a
//! thread that is woken late at a barrier, off the critical path, shifts waiting from one
//! class to another), where a fault of the collector or the analysis is there every time.
//! A disturbed run proves nothing and is repeated. On a machine where all are, the one that
//! was disturbed least is judged, with as much tolerance as it was disturbed. Where that is a
//! larger part of what was planted, nothing can be told.

use crate::command::Verdict;

/// Undisturbed runs that may be wrong before the test is.
const WRONG: usize = 4;
/// Disturbed runs before the least disturbed one is judged.
const DISTURBED: usize = 8;
/// How much longer than planted an undisturbed run may take.
const LONGER: f64 = 0.02;
/// How late an undisturbed run's sleepers may be woken, all together, for each second.
const LATER: f64 = 0.01;

/// How much of the planted work the disturbance of a run that is judged may be.
const MOST: f64 = 0.1;

/// What is planted as far as time goes, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// How long the program takes.
    pub(crate) elapsed: f64,
    /// How long all threads sleep.
    pub(crate) work: f64,
    /// Its threads.
    pub(crate) threads: f64,
}

/// Repeats a run until one can be judged. `once` gives what is to be judged and what was
/// said besides; `judge` has the tolerance, in seconds, that is due to disturbance.
pub(crate) fn attempt<Report>(
    plan: Plan,
    mut once: impl FnMut() -> Result<(Report, String), Verdict>,
    judge: impl Fn(&Report, f64) -> Result<(), Verdict>,
) -> Result<(), Verdict> {
    let mut wrong = 0;
    let mut disturbed: Vec<(f64, Report)> = Vec::new();
    loop {
        let (report, talk) = once()?;
        let Err(problem) = judge(&report, 0.0) else {
            return Ok(());
        };
        match disturbance(plan, &talk) {
            None => {
                wrong += 1;
                if wrong == WRONG {
                    return Err(problem);
                }
            }
            Some(seconds) => disturbed.push((seconds, report)),
        }
        if disturbed.len() == DISTURBED {
            let least = disturbed
                .iter()
                .min_by(|one, other| one.0.total_cmp(&other.0));
            return least.map_or(Ok(()), |(seconds, report)| match *seconds {
                seconds if seconds > MOST * plan.work => Err(Verdict::CannotTell(format!(
                    "the machine is too busy: in the best of {DISTURBED} runs threads were late by {seconds:.2} s where {:.2} s of work were planted",
                    plan.work
                ))),
                seconds => judge(report, seconds),
            });
        }
    }
}

/// The same where a program ends too abruptly to say how it went: a few runs may be wrong.
pub(crate) fn attempt_without_plan(once: impl Fn() -> Result<(), Verdict>) -> Result<(), Verdict> {
    let mut result = once();
    for _ in 1..WRONG {
        if !matches!(result, Err(Verdict::Wrong(_))) {
            break;
        }
        result = once();
    }
    result
}

/// How many seconds, of all threads, were not as planted by the program's own clock.
fn disturbance(plan: Plan, talk: &str) -> Option<f64> {
    let lines = talk.lines().filter(|line| line.starts_with("planted: "));
    let seconds = lines.filter_map(|line| {
        let figures: Vec<f64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [elapsed, late] = figures[..] else {
            return None;
        };
        let longer = (elapsed - plan.elapsed).max(0.0);
        let is_disturbed = longer > LONGER * plan.elapsed || late > LATER * plan.work;
        is_disturbed.then_some(longer * plan.threads + late)
    });
    seconds.max_by(f64::total_cmp)
}
