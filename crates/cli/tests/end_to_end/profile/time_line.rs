//! When threads spent their time: the second thread of the guest `profile/shares` begins when the first has
//! done all of its work.

use libtest_mimic::Trial;
use serde_json::Value;

use super::{By, array, by_both, guest, number, profiled_with};
use crate::observer::Verdict;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    by_both("time_line", time_line).into_iter().collect()
}

fn time_line(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let profile = profiled_with(scratch, by, &["--time-line".into()], &guest("")?)?;
    let line = &profile["time_line"];
    let wrong = || Verdict::Wrong(format!("{line:#}"));
    let [first, second] = array(line, "threads") else {
        return Err(wrong());
    };
    let spent = |thread: &Value| {
        array(thread, "spent")
            .iter()
            .map(number)
            .collect::<Vec<f64>>()
    };
    let (first, second) = (spent(first), spent(second));
    let threads = array(&profile, "threads");
    let has_all = |spent: &[f64], thread: &Value| {
        (spent.iter().sum::<f64>() - number(&thread["self"])).abs() < 1e-6
    };
    let begins = second.iter().position(|&seconds| seconds > 0.0);
    let begins = begins.ok_or_else(wrong)?;
    // Where one ends and the other begins, both may have spent time. How long each takes is a matter of what
    // else runs on the machine.
    let before = |spent: &[f64]| {
        let all: f64 = spent.iter().sum();
        spent.iter().take(begins + 2).sum::<f64>() / all
    };
    let is_apart = before(&first) > 0.9 && before(&second) < 0.6;
    let sums = has_all(&first, &threads[0]) && has_all(&second, &threads[1]);
    match is_apart && sums {
        true => Ok(()),
        false => Err(wrong()),
    }
}
