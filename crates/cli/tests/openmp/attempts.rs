//! Runs that count, and runs that a busy machine disturbed.
//!
//! Planted programs sleep, and say at their end how long they took and how late they were
//! woken. A run in which that is not as planted proves nothing and is repeated: its own clock
//! decides so, before anybody looks at the report. Of the other runs one must be right. They
//! are more than one because a program does not see every delay: a thread that is woken late
//! at a barrier, off the critical path, shifts waiting from one class to another. A fault of
//! the collector or the analysis is there every time.

use crate::command::Verdict;

/// Disturbed runs after which there is no answer. That is a failure: what observes may be
/// what disturbs.
const DISTURBED: usize = 15;
/// Undisturbed runs that may be wrong before the test is.
const WRONG: usize = 4;
/// How much longer than planted an undisturbed run may take.
const LONGER: f64 = 0.02;
/// How late an undisturbed run's sleepers may be woken, all together, for each second.
const LATER: f64 = 0.01;

/// What is planted as far as time goes, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// How long the program takes, if that is known.
    pub(crate) elapsed: Option<f64>,
    /// How long all threads sleep.
    pub(crate) work: f64,
}

/// Repeats a run until one counts. `once` gives what was said besides, and the verdict.
pub(crate) fn attempt(
    plan: Plan,
    mut once: impl FnMut() -> Result<(String, Result<(), Verdict>), Verdict>,
) -> Result<(), Verdict> {
    let (mut wrong, mut disturbances) = (0, Vec::new());
    loop {
        let (talk, result) = once()?;
        match (result, disturbance(plan, &talk)) {
            (Ok(()), _) => return Ok(()),
            (Err(Verdict::CannotTell(reason)), _) => return Err(Verdict::CannotTell(reason)),
            (Err(problem), None) => {
                wrong += 1;
                if wrong == WRONG {
                    return Err(problem);
                }
            }
            (Err(_), Some(disturbance)) => disturbances.push(disturbance),
        }
        if disturbances.len() == DISTURBED {
            let all = disturbances.join("\n");
            return Err(Verdict::Wrong(format!("every run was disturbed:\n{all}")));
        }
    }
}

/// What was not as planted, by the program's own clock.
fn disturbance(plan: Plan, talk: &str) -> Option<String> {
    let lines = talk.lines().filter(|line| line.starts_with("planted: "));
    let is_disturbed = |line: &&str| {
        let figures: Vec<f64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [elapsed, late] = figures[..] else {
            return true;
        };
        let is_long = plan
            .elapsed
            .is_some_and(|planted| elapsed > planted * (1.0 + LONGER));
        is_long || late > LATER * plan.work
    };
    lines.clone().find(is_disturbed).map(str::to_owned)
}
