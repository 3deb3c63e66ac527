//! Where threads wait: against what a program has measured of itself.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{By, guest_named, number, profile, total_of};
use crate::observer::{Verdict, run, trial, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::off_cpu::{name}"), test)
    };
    vec![
        test("known_waits", |scratch| known_waits(scratch, "")),
        test("known_waits_static", |scratch| {
            known_waits(scratch, "static")
        }),
        test("each_switch_once", each_switch_once),
        test("a_part_of_a_run", a_part_of_a_run),
        test("a_process_that_waits_already", waits_already),
        test("shown_alone", shown_alone),
        test("not_recorded", not_recorded),
        test("refusals", refusals),
    ]
}

/// How far what the program has measured may lie from the wait: it looks at the clock before and behind,
/// and may lose its processor in between.
const UNCERTAIN: f64 = 0.02;

/// The report, and what the program has said of its waits, of which two threads make so many more: those of `sleeps`, `wants_the_lock` and
/// `reads` in seconds, and how often it gave its processor up, and lost it.
fn observed(
    scratch: &Scratch,
    options: &[&str],
    variant: &str,
    rounds: &str,
) -> Result<(Value, [f64; 5]), Verdict> {
    let report = scratch.path().join("report").display().to_string();
    let own = [&["--json", "--report", &report], options, &["--"]].concat();
    let mut words: Vec<OsString> = own.iter().map(OsString::from).collect();
    words.extend(guest_named("profile/waits", variant)?);
    words.push(rounds.into());
    let outcome = profile(scratch, By::Kernel, &words)?;
    let said = outcome.stdout_text().to_string();
    let numbers: Vec<f64> = said.split_whitespace().flat_map(str::parse).collect();
    match <[f64; 5]>::try_from(numbers) {
        Ok(numbers) if outcome.ending == Ending::Exited(0) => Ok((read(&report)?, numbers)),
        _ => Err(Verdict::Wrong(format!(
            "{:?}: {said}{}",
            outcome.ending,
            outcome.stderr_text()
        ))),
    }
}

fn read(report: &str) -> Result<Value, Verdict> {
    serde_json::from_str(&std::fs::read_to_string(report)?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))
}

fn check(waits: &Value, measured: &[f64; 5]) -> Result<(), Verdict> {
    let [slept, wanted, was_read, ..] = *measured;
    let expected = [
        ("sleeps", slept),
        ("wants_the_lock", wanted),
        ("reads", was_read),
    ];
    for (function, must) in expected {
        let is = total_of(waits, function);
        // Before it wants the lock, the thread may wait until the other one holds it.
        let most = match function {
            "wants_the_lock" => must + 0.2,
            _ => must + UNCERTAIN,
        };
        if !(must - UNCERTAIN..most).contains(&is) {
            return Err(Verdict::Wrong(format!(
                "{function}: {is} s, not {must}: {waits:#}"
            )));
        }
    }
    let failed = number(&waits["unwinds"]["failed"]) + number(&waits["steps"]["wrong"]);
    match failed == 0.0 && number(&waits["total"]) >= slept + wanted + was_read - UNCERTAIN {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{waits:#}"))),
    }
}

/// Each wait is told of its function, for as long as it took; CPU time is what it was.
fn known_waits(scratch: &Scratch, variant: &str) -> Result<(), Verdict> {
    let (report, measured) = observed(scratch, &["--off-cpu"], variant, "0")?;
    check(&report["off_cpu"], &measured)?;
    // What it measured was exchanged: the negative control.
    let [slept, wanted, was_read, ..] = measured;
    let exchanged = [was_read, slept + 0.5, wanted, 0.0, 0.0];
    if check(&report["off_cpu"], &exchanged).is_ok() {
        return Err(Verdict::Wrong(
            "other waits were taken for right".to_owned(),
        ));
    }
    let burnt = total_of(&report, "burn");
    match (burnt - 0.4).abs() < 0.036 && total_of(&report["off_cpu"], "burn") < burnt {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("burn: {burnt} s of CPU time"))),
    }
}

/// As many waits as the system has counted, but for what was lost, which is said, and what came before
/// the program began and behind its look at the count.
fn each_switch_once(scratch: &Scratch) -> Result<(), Verdict> {
    // With little of each stack, nothing is lost where the recorder gets no processor for a while.
    let options = ["--off-cpu", "--stack-bytes=1024"];
    let (report, [.., given_up, lost_it]) = observed(scratch, &options, "", "3000")?;
    let waits = &report["off_cpu"];
    let (told, lost) = (number(&waits["samples"]), number(&waits["lost"]));
    let preempted = number(&waits["preempted"]["times"]);
    // A record that was lost may be a sample, or that a thread left or came back.
    let is_right = (told + preempted - given_up - lost_it).abs() <= 20.0 + lost
        && given_up > 2000.0
        && told > 0.5 * given_up;
    match is_right {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{told} waits and {preempted} times without a processor were told, {lost} lost; \
             {given_up} and {lost_it} counted"
        ))),
    }
}

/// Waits are cut to the part of the run that is kept.
fn a_part_of_a_run(scratch: &Scratch) -> Result<(), Verdict> {
    let options = ["--off-cpu", "--delay=0.1", "--duration=0.1"];
    let (report, _) = observed(scratch, &options, "", "0")?;
    let waits = &report["off_cpu"];
    let total = number(&waits["total"]);
    // Two threads wait in all of it, unless the program has begun late.
    match total <= 0.201 && total_of(waits, "sleeps") <= 0.1001 && total > 0.0 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{total} s in a tenth of a second: {waits:#}"
        ))),
    }
}

/// A thread that waits when sampling begins has waited from then on; where is not known.
fn waits_already(scratch: &Scratch) -> Result<(), Verdict> {
    let report = scratch.path().join("report").display().to_string();
    let mut sleeping = std::process::Command::new("sleep").arg("60").spawn()?;
    std::thread::sleep(std::time::Duration::from_millis(200));
    let pid = sleeping.id().to_string();
    let options = [
        "--off-cpu",
        "--duration=0.5",
        "--json",
        "--report",
        &report,
        "-p",
        &pid,
    ];
    let outcome = profile(scratch, By::Kernel, &options);
    sleeping.kill()?;
    sleeping.wait()?;
    let said = outcome?.stderr_text().to_string();
    let waits = &read(&report)?["off_cpu"];
    let total = number(&waits["total"]);
    match (0.4..=0.5001).contains(&total) && total_of(waits, "[unknown]") == total {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{total} s of half a second: {said}{waits:#}"
        ))),
    }
}

/// A kept recording is shown with both, with CPU time alone, or with waits alone, in all forms.
fn shown_alone(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    let (both, _) = observed(scratch, &["--off-cpu", "-o", &file], "", "0")?;
    let json = |show: &[&str]| -> Result<Value, Verdict> {
        let options = [show, &["--json", &file]].concat();
        let text = profile(scratch, By::Kernel, &options)?
            .stdout_text()
            .to_string();
        serde_json::from_str(&text).map_err(|_| Verdict::Wrong(format!("no JSON: {text}")))
    };
    let (later, cpu, waits) = (
        json(&[])?,
        json(&["--show=cpu"])?,
        json(&["--show=off-cpu"])?,
    );
    let mut of_waits = both["off_cpu"].clone();
    of_waits["off_cpu"] = Value::Null;
    of_waits["events"] = serde_json::json!([]);
    let is_same = later == both
        && waits == of_waits
        && cpu["off_cpu"].is_null()
        && cpu["functions"] == both["functions"]
        && waits["source"] == "perf waits";
    let text = |show: &[&str]| -> Result<String, Verdict> {
        let options = [show, &[&*file]].concat();
        Ok(profile(scratch, By::Kernel, &options)?
            .stdout_text()
            .to_string())
    };
    let has_waits = |text: String| text.contains("\nWhere threads waited\n");
    let is_told = has_waits(text(&[])?) && !has_waits(text(&["--show=cpu"])?);
    let folded = text(&["--show=off-cpu", "--folded"])?;
    let is_path = |line: &str| line.contains("other_thread;reads;");
    match is_same && is_told && folded.lines().any(is_path) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{both:#}\n{later:#}\n{folded}"))),
    }
}

/// Without the option there are no waits, and nothing to show of them.
fn not_recorded(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    let (report, _) = observed(scratch, &["-o", &file], "", "0")?;
    let outcome = profile(scratch, By::Kernel, &["--show=off-cpu", &file])?;
    let said = outcome.stderr_text();
    let is_refused = outcome.ending == Ending::Exited(125)
        && said.contains("where threads waited was not recorded")
        && said.contains("--off-cpu");
    match is_refused && report["off_cpu"].is_null() && report["preempted"].is_null() {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{said}{report:#}"))),
    }
}

fn refusals(scratch: &Scratch) -> Result<(), Verdict> {
    let cases = [
        (
            &["--backend=timer", "--off-cpu", "true"][..],
            "--clock wall",
        ),
        (
            &["--clock=wall", "--off-cpu", "true"],
            "cannot be used with",
        ),
    ];
    for (arguments, told) in cases {
        let invocation = unspool(scratch, &["profile"]).arguments(arguments);
        let outcome = run(scratch, &invocation)?;
        let said = outcome.stderr_text();
        if outcome.ending == Ending::Exited(0) || !said.contains(told) {
            return Err(Verdict::Wrong(format!("{arguments:?}: {said}")));
        }
    }
    Ok(())
}
