//! Samples of a part of a run, and of a process that runs already.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Outcome};

use super::{
    By, array, by_both, check_shares, check_unwinds, fail, guest, guest_named, number, profile,
    profiled_with, share_of,
};
use crate::observer::{COMMAND, Verdict, natively, run, trial, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::running::{name}"), test)
    };
    let delayed = by_both("delayed", delayed);
    let bounded = by_both("bounded", bounded);
    let running = [
        test("to_its_end", to_its_end),
        test("each_thread_once", each_thread_once),
        test("left_alone", left_alone),
        test("refusals", refusals),
    ];
    delayed.into_iter().chain(bounded).chain(running).collect()
}

fn typed(options: &[&str]) -> Vec<OsString> {
    options.iter().map(OsString::from).collect()
}

/// A program that waits for a second before it uses any time has all of it behind the delay, and
/// none within the first half.
fn delayed(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let script = format!("sleep 1; exec {}", guest("")?[0].display());
    let command = ["sh", "-c", &script].map(OsString::from);
    let late = profiled_with(scratch, by, &typed(&["--delay=0.9"]), &command)?;
    check_shares(&late)?;
    let window = &late["window"];
    if number(&window["from"]) != 0.9 || !window["until"].is_null() {
        return fail(format!("window {window}"));
    }
    let early = profiled_with(scratch, by, &typed(&["--duration=0.5"]), &command)?;
    let total = number(&early["total"]);
    match total < 0.2 && number(&early["elapsed"]) > 1.5 {
        true => Ok(()),
        false => fail(format!("{total} s in the first half of a second")),
    }
}

/// No more time is of a part than that part has, and the report says which part it is.
fn bounded(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let program = guest("")?[0].display().to_string();
    let part = ["--delay=0.1", "--duration=0.3"];
    let options = [
        &part[..],
        &["--report", &report, "-o", &file, "--", &program],
    ]
    .concat();
    profile(scratch, by, &options)?;
    let text = std::fs::read_to_string(&report)?;
    let later = profile(scratch, by, &["--json", &file])?.stdout_text();
    let later: Value = serde_json::from_str(&later)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let total = number(&later["total"]);
    let most = 0.31 + number(&later["longest"]);
    let is_said = text.contains("samples are of the run from 0.100 s to 0.400 s, ");
    // The program goes on to its end.
    let is_whole = number(&later["user"]) + number(&later["system"]) > 1.15;
    match total > 0.0 && total < most && is_said && is_whole {
        true => Ok(()),
        false => fail(format!("{total} s, {later}\n{text}")),
    }
}

/// Runs a script in which `$UNSPOOL` samples by `$1` what `$0` is; gives the JSON report and what
/// was said.
pub(super) fn scripted(
    scratch: &Scratch,
    script: &str,
    program: &str,
) -> Result<(Value, Outcome), Verdict> {
    let report = scratch.path().join("report").display().to_string();
    let command = ["sh", "-c", script, program, &report];
    let invocation = natively(scratch, &command).variable("UNSPOOL", COMMAND.as_os_str());
    let outcome = run(scratch, &invocation)?;
    let said = outcome.stderr_text().to_string();
    if let Some(reason) = said.lines().find(|line| line.contains("perf_event")) {
        return Err(Verdict::CannotTell(reason.to_owned()));
    }
    if outcome.ending != Ending::Exited(0) {
        return Err(Verdict::Wrong(format!("{:?}: {said}", outcome.ending)));
    }
    let read = serde_json::from_str(&std::fs::read_to_string(&report)?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    Ok((read, outcome))
}

/// A process is sampled to its end, with a thread that it starts later, and ends as it does alone.
fn to_its_end(scratch: &Scratch) -> Result<(), Verdict> {
    let script = "\"$0\" & program=$!
        \"$UNSPOOL\" profile --pid $program --json --report \"$1\" || exit 9
        wait $program && kill -0 $program 2>&- && exit 8; exit 0";
    let program = guest("")?[0].display().to_string();
    let (read, _) = scripted(scratch, script, &program)?;
    check_unwinds(&read)?;
    let total = number(&read["total"]);
    let (late, used) = (
        share_of(&read, "other_thread", "burn") * total,
        number(&read["user"]) + number(&read["system"]),
    );
    let is_named = read["command"] == serde_json::json!([program]);
    let names = array(&read, "threads").iter();
    let names: Vec<&Value> = names.map(|thread| &thread["name"]).collect();
    let is_right = (0.17..0.23).contains(&late)
        && (total - used).abs() < 0.1
        && total > 0.5
        && is_named
        && names.iter().all(|name| **name == "profile-shares");
    match is_right {
        true => Ok(()),
        false => fail(format!(
            "{late} of {total} s of {used} s, {names:?}, {}",
            read["command"]
        )),
    }
}

/// Threads that are there and threads that come have each of their samples once, also those that
/// are started while the command looks which there are.
fn each_thread_once(scratch: &Scratch) -> Result<(), Verdict> {
    let script = "\"$0\" 2 & program=$!
        sleep 0.2
        \"$UNSPOOL\" profile -p $program --json --report \"$1\" || exit 9
        wait $program";
    let program = guest_named("profile/running", "")?[0].display().to_string();
    let (read, _) = scripted(scratch, script, &program)?;
    check_unwinds(&read)?;
    let total = number(&read["total"]);
    let used = number(&read["user"]) + number(&read["system"]);
    let callers = ["first", "second", "third", "fourth", "short_thread"];
    let shares = callers.map(|caller| share_of(&read, caller, "burn"));
    // The last part of each of hundreds of threads is missing.
    let is_right = (0.6 * used..1.05 * used + 0.05).contains(&total)
        && shares.iter().all(|share| *share > 0.05)
        && shares.iter().sum::<f64>() > 0.9;
    match is_right {
        true => Ok(()),
        false => fail(format!("{total} s of {used} s, {shares:?}")),
    }
}

/// A process that is sampled for a while, or until the command is told to end, goes on.
fn left_alone(scratch: &Scratch) -> Result<(), Verdict> {
    let sleeping = "\"$0\" 60 & program=$!
        \"$UNSPOOL\" profile -p $program --duration 0.3 --json --report \"$1\" || exit 9
        kill -0 $program || exit 8
        \"$UNSPOOL\" profile -p $program --json --report \"$1\" & own=$!
        sleep 0.7
        kill -TERM $own
        wait $own || exit 7
        kill $program";
    let (read, _) = scripted(scratch, sleeping, "/bin/sleep")?;
    let elapsed = number(&read["elapsed"]);
    match (0.1..30.0).contains(&elapsed) && number(&read["total"]) == 0.0 {
        true => Ok(()),
        false => fail(format!("{read}")),
    }
}

fn refusals(scratch: &Scratch) -> Result<(), Verdict> {
    let cases = [
        (&["-p", "4194303"][..], "there is no process 4194303"),
        (&["-p", "1", "--backend=timer"], "--backend perf"),
        (&["-p", "1", "--clock=wall"], "--backend perf"),
        (&["-p", "1", "true"], "cannot be used with"),
        (&["--delay=-1", "true"], "--delay"),
        (&["--duration=nothing", "true"], "not a number"),
    ];
    for (arguments, told) in cases {
        let outcome = run(
            scratch,
            &unspool(scratch, &["profile"]).arguments(arguments),
        )?;
        let said = outcome.stderr_text();
        if outcome.ending == Ending::Exited(0) || !said.contains(told) {
            return fail(format!("{arguments:?}: {:?}, {said}", outcome.ending));
        }
    }
    Ok(())
}
