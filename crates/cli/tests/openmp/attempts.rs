//! Runs that count, and runs that a busy machine disturbed.
//!
//! Planted programs sleep, and say at their end how long they took and how late they were
//! woken. A run that fits the plan closely is right, whatever the machine did. If one does
//! not, the program's own clock decides: an undisturbed run was as planted, so that the
//! report is wrong. A disturbed run proves nothing. Nor does one beside which a thread of the
//! test's own waited long for a processor: a program sees no delay before it begins.
//!
//! Runs are repeated until most of those that could tell were right, or most were wrong. One
//! may be wrong by itself, because a program does not see every delay (a thread that is woken
//! late at a barrier, off the critical path, shifts waiting from one class to another); a
//! fault of the collector or the analysis is there in most of them. Where nearly all runs are
//! disturbed, these are judged too, each with as much tolerance as it was disturbed; but not
//! those where that is a larger part of what was planted, which can tell nothing. A test that
//! needed more than one run says so.

use std::cell::RefCell;
use std::fmt;

use libtest_mimic::Trial;

use crate::command::{Verdict, check, trial};
use crate::witness;

/// Wrong runs, and no fewer than right ones, after which a test is wrong.
const WRONG: u32 = 3;
/// Disturbed runs after which no further run is made.
const DISTURBED: usize = 8;
/// How much longer than planted an undisturbed run may take.
const LONGER: f64 = 0.02;
/// How late an undisturbed run's sleepers may be woken, all together, for each second.
const LATER: f64 = 0.01;

/// What part of an undisturbed run a thread beside it may wait for a processor.
const WAITED: f64 = 0.1;

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

thread_local! {
    static TEST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Says which test this thread carries out from now on.
pub(crate) fn begin_test(name: &str) {
    TEST.set(name.to_owned());
}

/// What the runs of a test have shown so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    right: u32,
    wrong: u32,
    disturbed: u32,
}

/// What can be concluded from a tally.
#[derive(Debug, PartialEq, Eq)]
enum Conclusion {
    Right,
    Wrong,
    Open,
}

impl Tally {
    fn conclusion(self) -> Conclusion {
        match self.right > self.wrong {
            true => Conclusion::Right,
            false if self.wrong >= WRONG => Conclusion::Wrong,
            false => Conclusion::Open,
        }
    }

    /// Says how many runs were needed, if it was more than one.
    fn say(self) {
        if self.right + self.wrong + self.disturbed > 1 {
            TEST.with_borrow(|name| eprintln!("{name}: {self}"));
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.right + self.wrong + self.disturbed;
        write!(
            formatter,
            "{runs} runs, of which {} were right, {} wrong, and {} too disturbed to tell",
            self.right, self.wrong, self.disturbed
        )
    }
}

/// Repeats a run until most that could tell agree. `once` gives what is to be judged and what
/// was said besides; `judge` has the tolerance, in seconds, that is due to disturbance.
pub(crate) fn attempt<Report>(
    plan: Plan,
    mut once: impl FnMut() -> Result<(Report, String), Verdict>,
    judge: impl Fn(&Report, f64) -> Result<(), Verdict>,
) -> Result<(), Verdict> {
    attempt_beside(plan, || witness::beside(&mut once), judge)
}

/// The same, where `once` also gives what part of the run a thread beside it waited.
fn attempt_beside<Report>(
    plan: Plan,
    mut once: impl FnMut() -> (Result<(Report, String), Verdict>, f64),
    judge: impl Fn(&Report, f64) -> Result<(), Verdict>,
) -> Result<(), Verdict> {
    let mut tally = Tally::default();
    let mut problem = None;
    let mut disturbed: Vec<(f64, Report)> = Vec::new();
    while tally.conclusion() == Conclusion::Open && disturbed.len() < DISTURBED {
        let (run, waited) = once();
        let (report, talk) = run?;
        let unseen = (waited > WAITED).then_some(waited * plan.elapsed * plan.threads);
        match (judge(&report, 0.0), disturbance(plan, &talk).or(unseen)) {
            (Ok(()), _) => tally.right += 1,
            (Err(wrong), None) => {
                tally.wrong += 1;
                problem = Some(wrong);
            }
            (Err(_), Some(seconds)) => disturbed.push((seconds, report)),
        }
    }
    let needs_all = tally.conclusion() == Conclusion::Open;
    for (seconds, report) in disturbed {
        match judge(&report, seconds) {
            _ if !needs_all || seconds > MOST * plan.work => tally.disturbed += 1,
            Ok(()) => tally.right += 1,
            Err(wrong) => {
                tally.wrong += 1;
                problem = Some(wrong);
            }
        }
    }
    conclude(tally, problem)
}

/// The same where a program ends too abruptly to say how it went.
pub(crate) fn attempt_without_plan(once: impl Fn() -> Result<(), Verdict>) -> Result<(), Verdict> {
    let mut tally = Tally::default();
    let mut problem = None;
    while tally.conclusion() == Conclusion::Open && tally.disturbed < DISTURBED as u32 {
        let (run, waited) = witness::beside(&once);
        match run {
            Ok(()) => tally.right += 1,
            Err(cannot_tell @ Verdict::CannotTell(_)) => return Err(cannot_tell),
            Err(_) if waited > WAITED => tally.disturbed += 1,
            Err(wrong) => {
                tally.wrong += 1;
                problem = Some(wrong);
            }
        }
    }
    conclude(tally, problem)
}

fn conclude(tally: Tally, problem: Option<Verdict>) -> Result<(), Verdict> {
    tally.say();
    match (tally.conclusion(), problem) {
        (Conclusion::Right, _) => Ok(()),
        (Conclusion::Wrong, Some(Verdict::Wrong(problem))) => {
            Err(Verdict::Wrong(format!("{problem}\n({tally})")))
        }
        _ => Err(Verdict::CannotTell(format!(
            "the machine is too busy: {tally}"
        ))),
    }
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

/// Tests of the rule itself: a plan of one second, and runs that are wrong or disturbed as told.
pub(crate) fn trials() -> Vec<Trial> {
    /// What a run shows: how far it is from what was planted, and how late its sleepers were.
    type Run = (f64, f64);
    const RIGHT: Run = (0.0, 0.0);
    const WRONG: Run = (0.5, 0.0);
    const LITTLE: Run = (0.05, 0.06);
    const LITTLE_AND_WRONG: Run = (0.5, 0.06);
    const MUCH: Run = (0.5, 0.6);
    fn outcome(runs: &[Run]) -> &'static str {
        let plan = Plan {
            elapsed: 1.0,
            work: 1.0,
            threads: 1.0,
        };
        let mut left = runs
            .iter()
            .copied()
            .chain(std::iter::repeat(runs[runs.len() - 1]));
        let once = || {
            let (error, late) = left.next().unwrap_or(RIGHT);
            (
                Ok((error, format!("planted: elapsed 1.0 late {late}"))),
                0.0,
            )
        };
        let judge = |error: &f64, slack: f64| match *error <= slack {
            true => Ok(()),
            false => Err(Verdict::Wrong("wrong".to_owned())),
        };
        match attempt_beside(plan, once, judge) {
            Ok(()) => "right",
            Err(Verdict::Wrong(_)) => "wrong",
            Err(Verdict::CannotTell(_)) => "cannot tell",
        }
    }
    let cases: [(&str, &[Run], &str); 7] = [
        ("one_right_run_is_enough", &[RIGHT, WRONG], "right"),
        (
            "one_wrong_run_of_three_passes",
            &[WRONG, RIGHT, RIGHT],
            "right",
        ),
        (
            "most_runs_wrong_fails",
            &[WRONG, WRONG, RIGHT, WRONG],
            "wrong",
        ),
        ("a_fault_that_is_always_there_fails", &[WRONG], "wrong"),
        (
            "little_disturbance_gives_tolerance",
            &[MUCH, LITTLE, MUCH],
            "right",
        ),
        (
            "a_fault_beside_little_disturbance_fails",
            &[LITTLE_AND_WRONG],
            "wrong",
        ),
        ("much_disturbance_cannot_tell", &[MUCH], "cannot tell"),
    ];
    let trials = cases.into_iter().map(|(name, runs, expected)| {
        trial(format!("attempts::{name}"), move || {
            let found = outcome(runs);
            check(found == expected, || {
                format!("{found} instead of {expected}")
            })
        })
    });
    trials.collect()
}
