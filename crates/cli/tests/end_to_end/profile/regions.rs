//! Samples of what a program says is of interest.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;

use super::{
    By, array, by_both, fail, guest_named, number, profile, profiled_with, total_of, uncertain,
};
use crate::observer::{Verdict, WORKSHOP, run, trial, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = [
        by_both("regions::of_a_program", of_a_program),
        by_both("regions::many", many),
    ]
    .into_iter()
    .flatten()
    .collect();
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::regions::{name}"), test)
    };
    trials.extend([
        test("of_rust", of_rust),
        test("of_waits", of_waits),
        test("not_heard", not_heard),
        test("refusals", refusals),
    ]);
    trials
}

fn observed(scratch: &Scratch, by: By, options: &[&str], variant: &str) -> Result<Value, Verdict> {
    let options: Vec<OsString> = options.iter().map(OsString::from).collect();
    let guest = guest_named("profile/regions", variant)?;
    profiled_with(scratch, by, &options, &guest)
}

fn check(report: &Value, outside: f64) -> Result<(), Verdict> {
    let uncertain = 2.0 * uncertain(report);
    for (function, expected) in [
        ("inside", 0.3),
        ("inside_in_child", 0.1),
        ("outside", outside),
    ] {
        let is = total_of(report, function);
        if (is - expected).abs() > uncertain {
            return fail(format!("{function}: {is} s, not {expected}: {report:#}"));
        }
    }
    Ok(())
}

/// Regions are of all threads of a process, and of children that are made in them until they say otherwise.
fn of_a_program(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let report = observed(scratch, by, &["--roi"], "")?;
    check(&report, 0.0)?;
    let regions = &report["regions"];
    let seconds = number(&regions["seconds"]);
    if regions["entered"] != 2 || regions["lost_marks"] != 0 || seconds < 0.45 {
        return fail(format!("{regions}"));
    }
    // Nothing of ours is on a path, and all that is told is of the regions.
    let sum: f64 = array(&report, "functions")
        .iter()
        .map(|it| number(&it["self"]))
        .sum();
    if (sum - number(&report["total"])).abs() > 1e-6 || number(&report["total"]) > 0.4 + 0.1 {
        return fail(format!("{report:#}"));
    }
    // The negative control: of all of the run, the rest is there.
    let whole = observed(scratch, by, &[], "")?;
    check(&whole, 0.5)?;
    match whole["regions"].is_null() && check(&whole, 0.0).is_err() {
        true => Ok(()),
        false => fail(format!("{whole:#}")),
    }
}

/// Two threads enter and leave regions as fast as they can: each time is counted, or said to be lost.
fn many(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    for rounds in [1000, 300_000] {
        let mut guest = guest_named("profile/regions", "")?;
        guest.push(rounds.to_string().into());
        let report = profiled_with(scratch, by, &["--roi".into()], &guest)?;
        let regions = &report["regions"];
        let (entered, lost) = (number(&regions["entered"]), number(&regions["lost_marks"]));
        // One that enters where the other one is inside does not enter anything.
        let all = 2.0 * f64::from(rounds);
        let is_right = match rounds {
            1000 => lost == 0.0 && (all / 2.0..=all).contains(&entered),
            _ => entered > 0.0 && 2.0 * entered + lost <= 2.0 * all,
        };
        if !is_right {
            return fail(format!("{rounds} rounds of two threads: {regions}"));
        }
    }
    Ok(())
}

/// The crate for Rust says the same.
fn of_rust(scratch: &Scratch) -> Result<(), Verdict> {
    let program = WORKSHOP
        .build_example("region_of_interest")
        .map_err(|problem| Verdict::CannotTell(problem.to_string()))?;
    let report = profiled_with(scratch, By::Kernel, &["--roi".into()], &[program.into()])?;
    let inside = total_of(&report, "region_of_interest::inside");
    let all = number(&report["total"]);
    // The guest goes by the wall clock. Of all of the run, two thirds would be outside.
    let is_right = inside > 0.005 && all < 1.3 * inside + 0.01;
    match report["regions"]["entered"] == 1 && is_right {
        true => Ok(()),
        false => fail(format!("{inside} s of {all} s: {report:#}")),
    }
}

/// Waits are cut to regions.
fn of_waits(scratch: &Scratch) -> Result<(), Verdict> {
    let report = observed(scratch, By::Kernel, &["--roi", "--off-cpu"], "")?;
    let waits = &report["off_cpu"];
    let inside = total_of(waits, "usleep");
    let whole = observed(scratch, By::Kernel, &["--off-cpu"], "")?;
    let all = total_of(&whole["off_cpu"], "usleep");
    match (0.09..0.15).contains(&inside) && (0.29..0.4).contains(&all) {
        true => Ok(()),
        false => fail(format!("{inside} s of {all} s: {waits:#}")),
    }
}

/// A program that loads no library cannot be heard: that is said.
fn not_heard(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = guest_named("profile/regions", "static")?;
    let arguments = [&["--roi".into(), "--".into()], &guest[..]].concat();
    let outcome = profile(scratch, By::Kernel, &arguments)?;
    let (said, text) = (outcome.stderr_text(), outcome.stdout_text());
    match said.contains("no region of interest was entered")
        && text.starts_with(&*guest[0].to_string_lossy())
    {
        true => Ok(()),
        false => fail(format!("{said}{text}")),
    }
}

fn refusals(scratch: &Scratch) -> Result<(), Verdict> {
    let invocation = unspool(scratch, &["profile"]).arguments(["--roi", "-p", "1"]);
    let said = run(scratch, &invocation)?.stderr_text().to_string();
    match said.contains("cannot be used with") {
        true => Ok(()),
        false => fail(said),
    }
}
