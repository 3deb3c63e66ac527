//! Random instructions, and those that were wrong once: natively and observed they must do
//! the same.

use libtest_mimic::Trial;
use unspool_fuzz_instructions::campaign::{self, Plan};
use unspool_fuzz_instructions::{Case, recorded, ways};

use crate::observer::{COMMAND, Verdict, trial};

/// What the cases follow from. Another one is as good: `cargo xtask fuzz -- --seed N`.
const SEED: u64 = 2026;

/// One test for what was found, one for each way of observing new cases, and the control.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("instructions::found_before".to_owned(), |_| found_before()),
        trial(
            "instructions::a_wrong_result_is_reported".to_owned(),
            |_| a_wrong_result_is_reported(),
        ),
    ];
    trials.push(trial(
        "instructions::what_is_recorded_explains_memory".to_owned(),
        |_| explains_memory(),
    ));
    trials.push(trial(
        "instructions::recorded_accesses_are_those_made".to_owned(),
        |_| records_accesses(),
    ));
    for name in ways::names() {
        trials.push(trial(format!("instructions::random::{name}"), move |_| {
            let cases = if name == "run" { 10_000 } else { 2_000 };
            let summary = campaign(name, cases, None)?;
            if summary.differences() == 0 {
                return Ok(());
            }
            Err(Verdict::Wrong(format!(
                "{} of {} cases differ\n{}\nreplay: put the lines that start with near or far \
                 into a file, and call cargo xtask fuzz -- --ways {name} --replay FILE",
                summary.differences(),
                summary.compared,
                summary.descriptions.join("\n")
            )))
        }));
    }
    trials
}

fn campaign(way: &str, cases: usize, falsify: Option<usize>) -> Result<campaign::Summary, Verdict> {
    let plan = Plan {
        unspool: COMMAND.clone(),
        ways: vec![ways::find(way, &COMMAND).expect("the name is from the table")],
        cases,
        batch: 5000,
        seed: SEED,
        described: 5,
        falsify,
    };
    campaign::run(&plan, |_| ()).map_err(|problem| Verdict::Wrong(format!("{problem:#}")))
}

fn found_before() -> Result<(), Verdict> {
    let text = include_str!("../../../fuzz-instructions/cases/found.txt");
    let cases = Case::parse_all(text)?;
    let ways: Vec<_> = [
        "run",
        "line-atomic",
        "ticket",
        "values",
        "tool",
        "tool-calls",
    ]
    .iter()
    .filter_map(|name| ways::find(name, &COMMAND))
    .collect();
    let descriptions = campaign::replay(&cases, &ways)
        .map_err(|problem| Verdict::Wrong(format!("{problem:#}")))?;
    if descriptions.is_empty() {
        Ok(())
    } else {
        Err(Verdict::Wrong(descriptions.join("\n")))
    }
}

/// What cases write must be in the trace as it was. The control: among these, there is one that
/// pushes a word and faults in the same instruction, which is known not to be recorded, and
/// must be noticed.
fn explains_memory() -> Result<(), Verdict> {
    const CASES: usize = 1500;
    const WITH_UNRECORDED: (usize, u64) = (400, 1);
    let verify = |(count, seed), whole| {
        campaign::verify(&COMMAND, &campaign::cases(count, seed), whole)
            .map_err(|problem| Verdict::Wrong(format!("{problem:#}")))
    };
    if let Some(said) = verify((CASES, SEED), true)? {
        return Err(Verdict::Wrong(crate::observer::shorten(&said)));
    }
    match verify(WITH_UNRECORDED, false)? {
        Some(_) => Ok(()),
        None => Err(Verdict::Wrong(
            "a write that is not recorded was not noticed".to_owned(),
        )),
    }
}

/// Address, size and kind of what first instructions access. The control: each falsehood in a
/// record must be found, once.
fn records_accesses() -> Result<(), Verdict> {
    let compare = |cases, falsify| {
        let plan = recorded::Plan {
            unspool: &COMMAND,
            cases,
            batch: 2000,
            seed: SEED,
            falsify,
        };
        recorded::run(plan, |_| ()).map_err(|problem| Verdict::Wrong(format!("{problem:#}")))
    };
    let findings = compare(8000, None)?;
    if !findings.differences.is_empty() || findings.accesses < 2000 {
        return Err(Verdict::Wrong(format!(
            "{} accesses were compared\n{}",
            findings.accesses,
            findings.differences.join("\n")
        )));
    }
    for falsehood in recorded::Falsehood::ALL {
        let found = compare(300, Some(falsehood))?.differences.len();
        if found == 0 {
            return Err(Verdict::Wrong(format!("{falsehood:?} was not noticed")));
        }
    }
    Ok(())
}

/// The control: one changed bit in one result must be found.
fn a_wrong_result_is_reported() -> Result<(), Verdict> {
    let summary = campaign("run", 500, Some(100))?;
    if summary.differences() == 1 {
        Ok(())
    } else {
        Err(Verdict::Wrong(format!(
            "one result was falsified, {} differences were found",
            summary.differences()
        )))
    }
}
