//! Figures by formulas, in both forms of the report.

use libtest_mimic::Trial;

use super::{By, array, by_both, guest, number, profiled_with};
use crate::observer::Verdict;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    by_both("metrics", metrics).into_iter().collect()
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
