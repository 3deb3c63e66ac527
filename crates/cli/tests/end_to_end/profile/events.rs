//! Where events happen: page faults, of which a program has a known number.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::parts_of_runs::scripted;
use super::{By, array, fail, guest_named, number, profile, profiled_with, share_of};
use crate::observer::{Verdict, run, trial, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::events::{name}"), test)
    };
    vec![
        test("known_faults", |scratch| known_faults(scratch, "")),
        test("known_faults_static", |scratch| {
            known_faults(scratch, "static")
        }),
        test("by_their_period", by_their_period),
        test("a_process_that_runs_already", runs_already),
        test("merged", merged),
        test("shown_alone", shown_alone),
        test("beside_waits", beside_waits),
        test("in_formulas", in_formulas),
        test("refusals", refusals),
    ]
}

/// Pages that are touched in `touches_few`, in two threads, and in `touches_many`.
const FEW: f64 = 200.0;
const MANY: f64 = 600.0;

fn observed(scratch: &Scratch, options: &[&str], variant: &str) -> Result<Value, Verdict> {
    // With little of each stack, all of them have room in the smallest ring.
    let options = [&["--stack-bytes=512"], options].concat();
    let options: Vec<OsString> = options.iter().map(OsString::from).collect();
    let guest = guest_named("profile/faults", variant)?;
    profiled_with(scratch, By::Kernel, &options, &guest)
}

/// The event of a report that was sampled as the first, second or later one.
fn event(report: &Value, place: usize) -> &Value {
    &report["events"][place]
}

/// How many of an event's samples are of a function, alone and with what it called.
fn of_function(event: &Value, name: &str) -> [f64; 2] {
    let mut functions = array(event, "functions").iter();
    let function = functions.find(|it| it["name"] == name);
    function.map_or([0.0; 2], |it| [number(&it["self"]), number(&it["total"])])
}

/// Whether functions have so many faults, up to a share. A page may be there before it is touched only
/// where the kernel makes several at once, which it does not do for new memory.
fn check(event: &Value, few: f64, many: f64, within: f64) -> Result<(), Verdict> {
    let is = [
        of_function(event, "touches_few"),
        of_function(event, "touches_many"),
    ];
    let near = |is: f64, expected: f64| (is - expected).abs() <= within * expected;
    let failed = number(&event["unwinds"]["failed"]) + number(&event["steps"]["wrong"]);
    let is_right = [(is[0], few), (is[1], many)]
        .iter()
        .all(|([_, total], expected)| near(*total, *expected));
    match is_right && failed == 0.0 && array(event, "problems").is_empty() {
        true => Ok(()),
        false => fail(format!("{is:?}, not {few} and {many}: {event:#}")),
    }
}

/// Each page is told once, of its function, and the sum is what the kernel counts.
fn known_faults(scratch: &Scratch, variant: &str) -> Result<(), Verdict> {
    let options = ["-e", "page-faults@1,minor-faults@10"];
    let report = observed(scratch, &options, variant)?;
    let all = event(&report, 0);
    check(all, FEW, MANY, 0.0)?;
    // What functions have was exchanged: the negative control.
    if check(all, MANY, FEW, 0.01).is_ok() {
        return fail("other faults were taken for right".to_owned());
    }
    let counted = number(&all["counted"]["events"]);
    let (told, lost) = (number(&all["total"]), number(&report["lost"]));
    if (told - counted).abs() > lost || told < FEW + MANY {
        return fail(format!("{told} of {counted} faults were told, {lost} lost"));
    }
    if all["event"] != "page-faults" || event(&report, 1)["event"] != "minor-faults" {
        return fail(format!("{:#}", report["events"]));
    }
    // One in ten of a thread's, on each processor it was on.
    check(event(&report, 1), FEW, MANY, 0.06)?;
    let (samples, minor) = (&event(&report, 1)["samples"], &event(&report, 1)["total"]);
    if number(minor) != 10.0 * number(samples) {
        return fail(format!("{minor} faults by {samples} samples"));
    }
    // Threads and time are what they are without events.
    let threads = array(all, "threads").len();
    let burnt = share_of(&report, "main", "burn") * number(&report["total"]);
    match threads == 2 && (0.03..0.09).contains(&burnt) && report["event"].is_null() {
        true => Ok(()),
        false => fail(format!("{threads} threads, {burnt} s: {report:#}")),
    }
}

/// Without a period, faults have one that costs little: what is missing of each thread on each processor is
/// less than that.
fn by_their_period(scratch: &Scratch) -> Result<(), Verdict> {
    let report = observed(scratch, &["-e", "page-faults"], "")?;
    let faults = event(&report, 0);
    let (told, counted) = (
        number(&faults["total"]),
        number(&faults["counted"]["events"]),
    );
    let missing = counted - told;
    let is_right = faults["period"] == 100.0
        && told == 100.0 * number(&faults["samples"])
        && (0.0..500.0).contains(&missing)
        && told > 0.0;
    match is_right {
        true => Ok(()),
        false => fail(format!("{told} of {counted}: {faults:#}")),
    }
}

/// Threads that are there when sampling begins, and threads that come.
fn runs_already(scratch: &Scratch) -> Result<(), Verdict> {
    let script = "\"$0\" 3 & program=$!
        sleep 0.2
        \"$UNSPOOL\" profile -p $program -e page-faults@1 --stack-bytes 512 --json --report \"$1\" || exit 9
        wait $program";
    let program = guest_named("profile/faults", "")?[0].display().to_string();
    let (read, _) = scripted(scratch, script, &program)?;
    check(event(&read, 0), FEW, MANY, 0.0)?;
    let counted = number(&event(&read, 0)["counted"]["events"]);
    match (FEW + MANY..FEW + MANY + 500.0).contains(&counted) {
        true => Ok(()),
        false => fail(format!("{counted} faults were counted")),
    }
}

/// Sums of runs have the sums of their events, and a file that has none changes nothing.
fn merged(scratch: &Scratch) -> Result<(), Verdict> {
    let file = |name: &str| scratch.path().join(name).display().to_string();
    let (one, other, without) = (file("one"), file("other"), file("without"));
    let mut counted = 0.0;
    for (path, options) in [
        (&one, &["-e", "page-faults@1"][..]),
        (&other, &["-e", "minor-faults@7,page-faults@1"]),
        (&without, &[]),
    ] {
        let report = observed(scratch, &[options, &["-o", path]].concat(), "")?;
        let events = array(&report, "events").iter();
        let faults = events.filter(|it| it["event"] == "page-faults");
        counted += faults
            .map(|it| number(&it["counted"]["events"]))
            .sum::<f64>();
    }
    let arguments = ["--json", "--show=page-faults", &one, &other, &without];
    let outcome = profile(scratch, By::Kernel, &arguments)?;
    let faults: Value = serde_json::from_str(&outcome.stdout_text())
        .map_err(|_| Verdict::Wrong(outcome.stderr_text().to_string()))?;
    check(&faults, 2.0 * FEW, 2.0 * MANY, 0.0)?;
    match number(&faults["counted"]["events"]) == counted {
        true => Ok(()),
        false => fail(format!("{counted} counted, not {}", faults["counted"])),
    }
}

/// A kept recording is shown with an event alone, in text, as paths and as a time line.
fn shown_alone(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    let report = observed(scratch, &["-e", "page-faults@1", "-o", &file], "")?;
    let show = |options: &[&str]| -> Result<String, Verdict> {
        let options = [&["--show=page-faults"], options, &[&file]].concat();
        Ok(profile(scratch, By::Kernel, &options)?
            .stdout_text()
            .to_string())
    };
    let text = show(&["--time-line"])?;
    let whole = profile(scratch, By::Kernel, &[&file])?
        .stdout_text()
        .to_string();
    let told = number(&event(&report, 0)["total"]);
    let heading =
        format!("one for each 1 of them: {told} page-faults; the kernel counted {told} in all");
    let folded = show(&["--folded"])?;
    let ends = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let sum: f64 = ends
        .filter_map(|(_, count)| count.parse::<f64>().ok())
        .sum();
    let is_right = text.starts_with("Where page-faults happened\n")
        && text.contains(&heading)
        && text.contains("page-faults of each thread")
        && whole.contains(&heading)
        && whole.contains("CPU time")
        && !text.contains("CPU time")
        && sum == told;
    match is_right {
        true => Ok(()),
        false => fail(format!("{sum} of {told}\n{text}\n{whole}")),
    }
}

/// Switches are an event for waits, and another one for who counts them.
fn beside_waits(scratch: &Scratch) -> Result<(), Verdict> {
    let report = observed(
        scratch,
        &["--off-cpu", "-e", "page-faults@1,context-switches@1"],
        "",
    )?;
    check(event(&report, 0), FEW, MANY, 0.0)?;
    let switches = event(&report, 1);
    let (told, counted) = (
        number(&switches["total"]),
        number(&switches["counted"]["events"]),
    );
    let waits = &report["off_cpu"];
    let left = number(&waits["samples"]) + number(&waits["preempted"]["times"]);
    // The last time of each of two threads is no wait: nothing comes behind it.
    match told == counted && told > 0.0 && (told - left).abs() <= 3.0 {
        true => Ok(()),
        false => fail(format!("{told} of {counted} switches, {left} waits")),
    }
}

/// Formulas are about events of functions and paths.
fn in_formulas(scratch: &Scratch) -> Result<(), Verdict> {
    let options = [
        "-e",
        "page-faults@1",
        "--metric",
        "x = {total page-faults} / total",
    ];
    let report = observed(scratch, &options, "")?;
    let functions = array(&report, "functions").iter();
    let main = functions.filter(|it| it["name"] == "main");
    let told: f64 = main
        .map(|it| number(&it["metrics"]["x"]) * number(&it["total"]))
        .sum();
    let expected = of_function(event(&report, 0), "main")[1];
    match (told - expected).abs() < 1e-3 && told >= MANY + FEW / 2.0 {
        true => Ok(()),
        false => fail(format!("{told}, not {expected}: {report:#}")),
    }
}

fn refusals(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    observed(scratch, &["-e", "page-faults", "-o", &file], "")?;
    for (arguments, told) in [
        (
            &["-e", "page-fault", "true"][..],
            "there is no event page-fault",
        ),
        (&["-e", "page-faults@0", "true"], "a number of events"),
        (&["-e", "page-faults@f9", "true"], "page-faults@PERIOD"),
        (
            &["-e", "page-faults", "--backend=timer", "true"],
            "only the kernel can",
        ),
        (
            &["-e", "page-faults", "--clock=wall", "true"],
            "cannot be used with",
        ),
        (
            &["-e", "page-faults@1,faults", "true"],
            "are the same event",
        ),
        (&["--show=cycles", &file], "here are cpu, page-faults"),
        (&["--metric=x={cycles}", &file], "x is about cycles"),
        (&["--metric=x={off-cpu}", "-e", "cs", "true"], "--off-cpu"),
    ] {
        let invocation = unspool(scratch, &["profile"]).arguments(arguments);
        let outcome = run(scratch, &invocation)?;
        let said = outcome.stderr_text();
        if outcome.ending == Ending::Exited(0) || !said.contains(told) {
            return fail(format!("{arguments:?}: {said}"));
        }
    }
    // Counters of the processor are there or not: they are sampled, or refused, and never left out.
    let invocation = unspool(scratch, &["profile", "--json", "-e", "cycles", "--"]);
    let guest = guest_named("profile/faults", "")?;
    let outcome = run(scratch, &invocation.arguments(&guest))?;
    let (said, written) = (outcome.stderr_text(), outcome.stdout_text());
    match outcome.ending {
        Ending::Exited(0) => {
            let report: Value = serde_json::from_str(&written)
                .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
            match number(&event(&report, 0)["samples"]) > 10.0 {
                true => Ok(()),
                false => fail(format!("{report:#}")),
            }
        }
        _ if said.contains("cycles cannot be sampled on this machine") => Ok(()),
        _ => fail(said.to_string()),
    }
}
