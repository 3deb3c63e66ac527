//! Timers inside the program, where the kernel takes no samples: as much as with the kernel, and
//! the program does not notice.

use std::collections::BTreeMap;
use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{
    By, array, check_shares, fail, guest, guest_named, missing, number, profiled, profiled_with,
    uncertain,
};
use crate::observer::{COMMAND, Verdict, natively, run, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::timers::{name}"), test)
    };
    vec![
        test("as_the_kernel_sees_it", as_the_kernel),
        test("counted_at_both_ends", counted),
        test("where_the_kernel_refuses", refused),
        test("killed_program", killed_program),
        test("program_does_not_notice", not_noticed),
        test("waiting", waiting),
        test("many_threads", many_threads),
        test("static_program_is_told", static_program),
        test("functions_by_other_names", other_names),
        test("where_there_is_no_memory_for_rings", without_rings),
    ]
}

/// The share of each function's own time, of those that are more than a crumb; what is in the
/// kernel is the caller's with timers.
fn selves(profile: &Value) -> BTreeMap<String, f64> {
    let total = number(&profile["total"]);
    let own = |function: &Value| {
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        (name, number(&function["self"]) / total)
    };
    let all = array(profile, "functions").iter().map(own);
    all.filter(|(name, share)| *share > 0.02 && name != "[kernel]")
        .collect()
}

/// Both back ends give each function the same share of the time, but for what is in the kernel.
fn as_the_kernel(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_named("profile/frames", "")?;
    let of_kernel = profiled(scratch, By::Kernel, &command)?;
    let kernel = selves(&of_kernel);
    let timers = profiled(scratch, By::Timers, &command)?;
    let in_kernel = array(&of_kernel, "functions")
        .iter()
        .find(|function| function["name"] == "[kernel]");
    let in_kernel = in_kernel.map_or(0.0, |function| number(&function["self"]));
    let most = (uncertain(&timers) + in_kernel) / number(&timers["total"]);
    let timers = selves(&timers);
    let names = kernel.keys().chain(timers.keys());
    for name in names {
        let share = |all: &BTreeMap<String, f64>| all.get(name).copied().unwrap_or(0.0);
        if (share(&kernel) - share(&timers)).abs() > most {
            return fail(format!("{name}: {kernel:?} and {timers:?}"));
        }
    }
    match kernel.is_empty() {
        true => fail("no function has any time".to_owned()),
        false => Ok(()),
    }
}

/// What timers have counted is what samples stand for, and that is the CPU time of the threads by
/// their own clocks, which is what the system has counted of the processes, but for their starts;
/// also over processes and threads that begin and end.
fn counted(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("")?[0].display().to_string();
    let script = format!("{program} & {program}; wait");
    let command = ["sh", "-c", &script].map(OsString::from);
    let profile = profiled(scratch, By::Timers, &command)?;
    let timers = &profile["timers"];
    let expirations = number(&timers["expirations"]);
    let told = number(&timers["sampled"]) + number(&timers["without_room"]);
    let sampled = number(&timers["sampled"]) * number(&profile["period"]);
    let used = number(&timers["used"]);
    let system = number(&profile["user"]) + number(&profile["system"]);
    let is_told = expirations == told
        && (sampled - number(&profile["total"])).abs() < 1e-6
        && number(&profile["lost"]) == number(&timers["without_room"]);
    let missing = missing(&profile);
    let most = array(&profile, "threads").len() as f64 * number(&profile["longest"]);
    let is_close = (0.0..most).contains(&missing) && (2.4..system + 0.01).contains(&used);
    match is_told && is_close && used > 0.9 * system {
        true => Ok(()),
        false => fail(format!(
            "{timers}, {sampled} s of {system} s, {missing} s missing, not {most}, lost {}",
            profile["lost"]
        )),
    }
}

/// Without a word, timers are taken where the kernel refuses; asked for the kernel, nothing runs.
fn refused(scratch: &Scratch) -> Result<(), Verdict> {
    let without_perf = guest_named("profile/without_perf", "")?[0]
        .display()
        .to_string();
    let own = COMMAND.display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let program = guest("")?[0].display().to_string();
    let profile = [
        &without_perf,
        &own,
        "profile",
        "--json",
        "--report",
        &report,
    ];
    let invocation = natively(scratch, &[&profile[..], &["--", &program]].concat());
    let outcome = run(scratch, &invocation)?;
    if outcome.ending != Ending::Exited(0)
        || !outcome
            .stderr_text()
            .contains("timers inside the program take them")
    {
        return Err(wrong("timers must take the samples", &invocation, &outcome));
    }
    let read: Value = serde_json::from_str(&std::fs::read_to_string(&report)?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    check_shares(&read)?;
    if read["source"] != "cpu timers" {
        return fail(format!("source {}", read["source"]));
    }
    let asked = [&profile[..], &["--backend=perf", "--", "echo", "it runs"]].concat();
    let invocation = natively(scratch, &asked);
    let outcome = run(scratch, &invocation)?;
    let is_refused = outcome.ending != Ending::Exited(0)
        && outcome.stdout_text().is_empty()
        && outcome.stderr_text().contains("--backend timer");
    match is_refused {
        true => Ok(()),
        false => Err(wrong("this must be refused", &invocation, &outcome)),
    }
}

/// A program that is killed leaves its samples up to then.
fn killed_program(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("")?[0].display().to_string();
    let report = scratch.path().join("report").display().to_string();
    // It kills itself after its first path, which takes 0.42 s.
    let script = format!("{program} killed; kill -9 $$");
    let options = [
        "profile",
        "--backend=timer",
        "--json",
        "--report",
        &report,
        "--",
    ];
    let invocation = unspool(scratch, &options).arguments(["sh", "-c", &script]);
    let outcome = run(scratch, &invocation)?;
    let read: Value = serde_json::from_str(&std::fs::read_to_string(&report)?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let share = super::share_from(&read, "left");
    let timers = &read["timers"];
    let told = number(&timers["sampled"]) + number(&timers["without_room"]);
    let is_whole = !read["elapsed"].is_null() && number(&timers["expirations"]) == told;
    let total = number(&read["total"]);
    let least = 0.42 - number(&read["longest"]);
    let is_right = share > 0.9 && (least..0.42 + 0.05).contains(&total);
    match outcome.ending == Ending::Exited(137) && is_right && is_whole {
        true => Ok(()),
        false => fail(format!(
            "{share} of the time, {timers}: {:?}",
            outcome.ending
        )),
    }
}

/// A program with handlers for all signals, that waits in all ways: it checks itself. It is
/// sampled, with its 20 children.
fn not_noticed(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = guest_named("profile/signals_of_its_own", "")?;
    for clock in ["--clock=cpu", "--clock=wall"] {
        let options = [clock, "--frequency=4000"].map(OsString::from);
        let profile = profiled_with(scratch, By::Timers, &options, &guest)?;
        let threads = array(&profile, "threads");
        let samples: u64 = threads
            .iter()
            .filter_map(|thread| thread["samples"].as_u64())
            .sum();
        let unwinds = &profile["unwinds"];
        let failed = number(&unwinds["failed"]) + number(&unwinds["without_stack"]);
        let failed = failed / number(&profile["samples"]);
        // The children use 50 ms each.
        let sampled = threads
            .iter()
            .filter(|thread| thread["samples"].as_u64() > Some(0));
        if sampled.count() < 22 || samples < 100 || failed > 0.01 {
            return fail(format!(
                "{clock}: {samples} samples, {unwinds}: {threads:?}"
            ));
        }
    }
    Ok(())
}

/// Time in which a thread waits is of the wall clock only.
fn waiting(scratch: &Scratch) -> Result<(), Verdict> {
    let command = ["sleep", "0.5"].map(OsString::from);
    for (clock, least, most) in [("--clock=wall", 0.47, 0.6), ("--clock=cpu", 0.0, 0.1)] {
        let profile = profiled_with(scratch, By::Timers, &[clock.into()], &command)?;
        let total = number(&profile["total"]);
        if !(least..=most).contains(&total) {
            return fail(format!("{clock}: {total} s"));
        }
    }
    Ok(())
}

/// Hundreds of threads that live for a short while, some of them at one time: each is followed from
/// its start to its end, by its own clock, and what no sample stands for is told.
fn many_threads(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest_named("profile/short_threads", "")?;
    let profile = profiled(scratch, By::Timers, &program)?;
    let timers = &profile["timers"];
    let expirations = number(&timers["expirations"]);
    let told = number(&timers["sampled"]) + number(&timers["without_room"]);
    let used = number(&timers["used"]);
    let system = number(&profile["user"]) + number(&profile["system"]);
    let sampled = expirations * number(&profile["period"]);
    // 240 threads use 10 ms each, which is two and a half ticks of mostly 4 ms.
    let is_right = number(&timers["threads_left_out"]) == 0.0
        && expirations == told
        && (2.4..system + 0.01).contains(&used)
        && (0.1 * used..used).contains(&sampled);
    match is_right {
        true => Ok(()),
        false => fail(format!("{timers}, {sampled} s of {used} s of {system} s")),
    }
}

/// Nothing can be loaded into it, which is said.
fn static_program(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("static")?;
    let options = ["profile", "--backend=timer", "--"];
    let outcome = run(scratch, &unspool(scratch, &options).arguments(&program))?;
    let is_told = outcome.stderr_text().contains("nothing was sampled");
    match outcome.ending == Ending::Exited(0) && is_told {
        true => Ok(()),
        false => fail(format!("{:?}: {}", outcome.ending, outcome.stderr_text())),
    }
}

/// Functions that wait by other names than the usual, and at sockets, are not cut short either. The
/// signal comes while they wait: by the wall clock there are samples of all that time.
fn other_names(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = guest_named("profile/other_names", "")?;
    let options = ["--clock=wall", "--frequency=4000"].map(OsString::from);
    let profile = profiled_with(scratch, By::Timers, &options, &guest)?;
    let (total, elapsed) = (number(&profile["total"]), number(&profile["elapsed"]));
    match total > 0.8 * elapsed && elapsed > 0.5 {
        true => Ok(()),
        false => fail(format!("{total} s of {elapsed} s")),
    }
}

/// Where the kernel takes samples but gives no memory for them, timers take them, too.
fn without_rings(scratch: &Scratch) -> Result<(), Verdict> {
    let without = guest_named("profile/without_rings", "")?[0]
        .display()
        .to_string();
    let (own, program) = (
        COMMAND.display().to_string(),
        guest("")?[0].display().to_string(),
    );
    let report = scratch.path().join("report").display().to_string();
    let profile = [&without, &own, "profile", "--json", "--report", &report];
    let invocation = natively(scratch, &[&profile[..], &["--", &program]].concat());
    let outcome = run(scratch, &invocation)?;
    let said = outcome.stderr_text();
    if said.contains("perf_event_paranoid") {
        return Err(Verdict::CannotTell("sampling is forbidden".to_owned()));
    }
    let is_said = said.contains("perf_event_mlock_kb")
        && said.contains("timers inside the program take them");
    if outcome.ending != Ending::Exited(0) || !is_said {
        return Err(wrong("timers must take the samples", &invocation, &outcome));
    }
    let read: Value = serde_json::from_str(&std::fs::read_to_string(&report)?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    check_shares(&read)?;
    let asked = [&profile[..], &["--backend=perf", "--", "echo", "it runs"]].concat();
    let invocation = natively(scratch, &asked);
    let outcome = run(scratch, &invocation)?;
    let is_refused = outcome.stdout_text().is_empty()
        && outcome
            .stderr_text()
            .contains("sysctl kernel.perf_event_mlock_kb");
    match is_refused && outcome.ending == Ending::Exited(125) {
        true => Ok(()),
        false => Err(wrong("this must be refused", &invocation, &outcome)),
    }
}
