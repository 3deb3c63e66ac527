//! `unspool race --predict`: what a run has not shown, and another order of the same events does.
//!
//! `crates/guests/predicted`: each source is two, one in which nothing may be predicted, and one in
//! which that must be which its comments label, and which no run shows. What has no races at all
//! (`crates/guests/races`) must have none in any order.

use std::collections::BTreeSet;
use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;

use super::{Build, answers_with, build_of, file_name, fits, labels, own_source, sources, told};
use crate::observer::{Verdict, run, trial, unspool, wrong};
use crate::scratch::Scratch;

const OPTIONS: [&str; 2] = ["--predict", "--coverage"];
const OVER_FILE: [&str; 1] = ["--predict"];

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/predicted");
    for source in sources(&folder) {
        for build in super::builds(&source) {
            let name = format!("races::predicted::{}::{}", file_name(&source), build.name());
            let source = source.clone();
            trials.push(trial(name, move |scratch| {
                as_labelled(scratch, &source, build)
            }));
        }
    }
    for source in sources(&super::folder()) {
        let name = format!("races::predicted::none::{}", file_name(&source));
        trials.push(trial(name, move |scratch| none(scratch, &source)));
    }
    trials.push(trial("races::coverage".to_owned(), coverage));
    trials.push(trial("races::predicted_of_a_part".to_owned(), of_a_part));
    trials.push(trial("races::predicted_for_review".to_owned(), for_review));
    trials
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

fn as_labelled(scratch: &Scratch, source: &Path, build: Build) -> Result<(), Verdict> {
    let program = build.of(scratch, source)?;
    let (answer, command) = answers_with(scratch, &program, &OPTIONS, &OVER_FILE)?;
    let labels = match build.racy {
        true => labels(source)?,
        false => Default::default(),
    };
    let predicted = list(&answer, "predicted");
    let missing: BTreeSet<&String> = labels
        .iter()
        .filter(|(name, lines)| !predicted.iter().any(|it| fits(it, name, lines, source)))
        .map(|(name, _)| name)
        .collect();
    let is_labelled = |race: &Value| {
        let mut labels = labels.iter();
        labels.any(|(name, lines)| fits(race, name, lines, source))
    };
    let text = std::fs::read_to_string(source)?;
    let has_deadlock = build.racy && text.contains("// found: predicted-deadlock");
    let deadlocks = list(&answer, "deadlocks").iter();
    let is_predicted = |it: &&Value| it["is_predicted"] == true;
    let is_right = missing.is_empty()
        && predicted.iter().all(is_labelled)
        && list(&answer, "races").is_empty()
        && (deadlocks.filter(is_predicted).count() > 0) == has_deadlock;
    match is_right {
        true => Ok(()),
        false => Err(told(
            format!("{labels:?} must be predicted, and nothing else: {answer:#}"),
            &command,
        )),
    }
}

fn none(scratch: &Scratch, source: &Path) -> Result<(), Verdict> {
    let program = build_of(false, false).of(scratch, source)?;
    let (answer, command) = answers_with(scratch, &program, &OPTIONS, &OVER_FILE)?;
    match list(&answer, "predicted") {
        [] => Ok(()),
        some => Err(told(format!("there is no such race: {some:#?}"), &command)),
    }
}

/// Where records are missing, what they say may be why an order is none: nothing is predicted.
fn of_a_part(scratch: &Scratch) -> Result<(), Verdict> {
    for source in ["behind_a_lock.c", "deadlock.c"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/predicted");
        let program = build_of(true, false).of(scratch, &folder.join(source))?;
        let (whole, _) = answers_with(scratch, &program, &OPTIONS, &OVER_FILE)?;
        let trace = scratch.path().join("trace");
        let bytes = std::fs::read(&trace)?;
        std::fs::write(&trace, &bytes[..bytes.len() - 64])?;
        let command = unspool(scratch, &["race", "--predict", "--json"]).arguments([&trace]);
        let outcome = run(scratch, &command)?;
        let part: Value = serde_json::from_str(&outcome.stdout_text())
            .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
        let predicted = |answer: &Value| {
            let deadlocks = list(answer, "deadlocks").iter();
            let deadlocks = deadlocks.filter(|it| it["is_predicted"] == true);
            list(answer, "predicted").len() + deadlocks.count()
        };
        let is_part = part["trace_is_whole"] == false;
        if !is_part || predicted(&whole) != 1 || predicted(&part) != 0 {
            return Err(told(format!("{source}: {whole:#}\nand {part:#}"), &command));
        }
    }
    Ok(())
}

/// Two sections that follow each other in one order are told so, and in both orders not.
fn coverage(scratch: &Scratch) -> Result<(), Verdict> {
    let source = own_source("sections.c");
    let program = build_of(false, false).of(scratch, &source)?;
    let (answer, command) = answers_with(scratch, &program, &["--coverage"], &[])?;
    let text = std::fs::read_to_string(&source)?;
    let line_of = |label: &str| {
        let line = text.lines().position(|it| it.contains(label));
        line.map_or(0, |line| line + 1)
    };
    let line = |taken: &Value| {
        let frames = list(taken, "stack").iter();
        let mut lines = frames.filter_map(|it| it["line"].as_str());
        let own = lines.find(|it| it.contains("sections.c"));
        let number = own.and_then(|it| it.rsplit_once(':')?.1.parse().ok());
        number.unwrap_or(0)
    };
    let pairs: BTreeSet<(usize, usize, u64, u64)> = list(&answer, "lock_orders")
        .iter()
        .map(|it| {
            let number = |name: &str| it[name].as_u64().unwrap_or(0);
            let (first, second) = (line(&it["first"]), line(&it["second"]));
            let (there, back) = (number("first_before_second"), number("second_before_first"));
            match first <= second {
                true => (first, second, there, back),
                false => (second, first, back, there),
            }
        })
        .collect();
    let expected = BTreeSet::from([
        (line_of("once: first"), line_of("once: second"), 1, 0),
        (line_of("both: one"), line_of("both: other"), 2, 1),
    ]);
    match pairs == expected {
        true => Ok(()),
        false => Err(told(format!("{expected:?} and not {pairs:?}"), &command)),
    }
}

/// What is predicted is among the findings for code review, told apart from what was seen.
fn for_review(scratch: &Scratch) -> Result<(), Verdict> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/predicted/behind_a_lock.c");
    let program = build_of(true, false).of(scratch, &source)?;
    let sarif = scratch.path().join("found.sarif");
    let command = unspool(scratch, &["race", "--predict", "--annotations", "github"]).arguments([
        "--sarif".as_ref(),
        sarif.as_os_str(),
        "--".as_ref(),
        program.as_os_str(),
    ]);
    let outcome = run(scratch, &command)?;
    let line = "behind_a_lock.c,line=11,title=Predicted data race::value ";
    let log: Value = serde_json::from_str(&std::fs::read_to_string(&sarif)?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let rules = list(&log["runs"][0], "results").iter();
    let rules: Vec<&Value> = rules.map(|it| &it["ruleId"]).collect();
    match outcome.stderr_text().contains(line) && rules == ["predicted-data-race"] {
        true => Ok(()),
        false => Err(wrong(&format!("{line}, and {log:#}"), &command, &outcome)),
    }
}
