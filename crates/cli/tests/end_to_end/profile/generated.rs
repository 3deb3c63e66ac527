//! Code that programs make themselves has the names that they tell.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{By, array, by_both, guest_named, number, profile, profiled, share_of};
use crate::observer::{Verdict, natively, run, trial};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let told = by_both("generated_code", told);
    let node = trial("profile::generated_code_of_node".to_owned(), node);
    told.into_iter().chain([node]).collect()
}

/// The share of all time that was spent in functions whose names contain this.
fn share_in(profile: &Value, name: &str) -> f64 {
    let is_meant = |function: &&Value| {
        let named = function["name"].as_str();
        named.is_some_and(|named| named.contains(name))
    };
    let meant = array(profile, "functions").iter().filter(is_meant);
    let spent: f64 = meant.map(|function| number(&function["self"])).sum();
    spent / number(&profile["total"])
}

/// Each function has the later of its names, and its caller, over code of either kind. A program
/// that says nothing of its code has no such names.
fn told(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let guest = guest_named("profile/generated_code", "")?;
    let command = |argument: &str| [&guest[..], &[argument.into()]].concat();
    let file = scratch.path().join("recording").display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let options = ["--report", &report, "-o", &file, "--"].map(OsString::from);
    profile(scratch, by, &[&options[..], &command("longer")].concat())?;
    let later = profile(scratch, by, &["--json", &file])?.stdout_text();
    let later: Value = serde_json::from_str(&later)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let shares = [
        share_of(&later, "generated outer", "generated spin"),
        share_of(&later, "call_generated", "generated outer"),
        share_in(&later, "generated spin"),
    ];
    let silent = profiled(scratch, by, &command("silent"))?;
    let silent = [share_in(&silent, "generated "), share_in(&silent, "anon+")];
    match shares.iter().all(|share| *share > 0.9) && silent[0] == 0.0 && silent[1] > 0.9 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{shares:?}, {silent:?}, {later}"))),
    }
}

/// What Node compiles has the names of its functions, if it is asked to tell them.
fn node(scratch: &Scratch) -> Result<(), Verdict> {
    let there = natively(scratch, &["sh", "-c", "command -v node"]);
    if run(scratch, &there)?.ending != Ending::Exited(0) {
        return Err(Verdict::CannotTell("there is no node".to_owned()));
    }
    let script = scratch.path().join("spin.js");
    std::fs::write(
        &script,
        "function spinInScript(end) {
            let x = 1;
            while (process.cpuUsage().user < end)
                for (let i = 0; i < 1e5; i++) x = (x * 31 + i) | 0;
            return x;
        }
        process.exitCode = spinInScript(1.5e6) === 0.5 ? 1 : 0;",
    )?;
    let script = script.as_os_str();
    let command = |option: &str| ["node".into(), option.into(), script.to_owned()];
    let told = profiled(scratch, By::Kernel, &command("--perf-basic-prof"))?;
    // Node leaves its file.
    for thread in array(&told, "threads") {
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", thread["process"]));
    }
    let silent = profiled(scratch, By::Kernel, &command("--no-warnings"))?;
    let shares = [&told, &silent].map(|profile| share_in(profile, "spinInScript"));
    match shares[0] > 0.6 && shares[1] == 0.0 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{shares:?}"))),
    }
}
