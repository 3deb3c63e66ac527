//! Figures by formulas, in both forms of the report.

use libtest_mimic::Trial;
use unspool_guests::Ending;

use super::{By, array, by_both, guest, number, profiled_with};
use crate::observer::{Verdict, run, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = by_both("metrics", metrics).into_iter().collect();
    trials.push(trial(
        "profile::metrics_of_one_name".to_owned(),
        of_one_name,
    ));
    trials
}

/// Shares of all time are computed of each function, and sum up; what is about threads has a value for
/// functions, and none for call paths.
fn metrics(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let options = [
        "--metric",
        "share = 100 * self / run",
        "--metric",
        "uneven = most - least",
    ];
    let profile = profiled_with(scratch, by, &options.map(Into::into), &guest("")?)?;
    let mut shares = 0.0;
    for function in array(&profile, "functions") {
        let share = number(&function["metrics"]["share"]);
        let expected = 100.0 * number(&function["self"]) / number(&profile["total"]);
        let spread = &function["self_of_threads"];
        let uneven = number(&spread["max"]) - number(&spread["min"]);
        let is_right = (share - expected).abs() < 1e-6
            && (number(&function["metrics"]["uneven"]) - uneven).abs() < 1e-6;
        if !is_right {
            return Err(Verdict::Wrong(format!("{function:#}")));
        }
        shares += share;
    }
    let paths = array(&profile, "calling_contexts");
    let is_known = |path: &serde_json::Value| {
        path["metrics"]["share"].is_number() && path["metrics"]["uneven"].is_null()
    };
    match (shares - 100.0).abs() < 1e-6 && paths.iter().all(is_known) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{shares}: {profile:#}"))),
    }
}

/// Two metrics of one name cannot be told apart: nothing is run.
fn of_one_name(scratch: &Scratch) -> Result<(), Verdict> {
    let options = ["profile", "--metric", "x=self", "--metric", "x=total", "--"];
    let command = unspool(scratch, &options).arguments(["echo", "ran"]);
    let outcome = run(scratch, &command)?;
    let is_named = outcome.stderr_text().contains("two metrics are called x");
    match is_named && outcome.ending == Ending::Exited(125) && outcome.stdout.is_empty() {
        true => Ok(()),
        false => Err(wrong("an error that names it", &command, &outcome)),
    }
}
