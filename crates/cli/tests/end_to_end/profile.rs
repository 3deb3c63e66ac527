//! `unspool profile` on programs whose shares of time are known.

mod built;
mod call_paths;
mod debug_files;
mod events;
mod frames;
mod generated;
mod loops;
mod metrics;
mod off_cpu;
mod openmp;
mod parts_of_runs;
mod perf_data;
mod preloaded;
mod ranks;
mod recording;
mod regions;
mod scaling;
mod time_line;
mod timers;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Outcome};

use self::built::made;
use crate::guest_programs;
use crate::observer::{Verdict, run, trial, unspool, wrong};
use crate::scratch::Scratch;

/// What takes the samples.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Kernel,
    Timers,
}

impl By {
    fn option(self) -> &'static str {
        match self {
            By::Kernel => "--backend=perf",
            By::Timers => "--backend=timer",
        }
    }
}

/// A test of each back end.
fn by_both(name: &str, test: fn(&Scratch, By) -> Result<(), Verdict>) -> [Trial; 2] {
    [
        trial(format!("profile::{name}"), move |scratch| {
            test(scratch, By::Kernel)
        }),
        trial(format!("profile::timers::{name}"), move |scratch| {
            test(scratch, By::Timers)
        }),
    ]
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = [
        by_both("shares", |scratch, by| shares(scratch, by, "")),
        by_both("shares_of_stripped_code", stripped),
        by_both("shares_without_information", bare),
        by_both("a_wrong_answer_is_refused", exchanged),
        by_both("processes_and_programs", processes),
        by_both("kept_and_folded", kept),
        by_both("ends_as_the_program", endings),
        by_both("killed", killed),
    ]
    .into_iter()
    .flatten()
    .collect();
    trials.push(trial("profile::shares_static".to_owned(), |scratch| {
        shares(scratch, By::Kernel, "static")
    }));
    trials.push(trial(
        "profile::shares_static_without_information".to_owned(),
        bare_static,
    ));
    trials.extend(call_paths::trials());
    trials.extend(debug_files::trials());
    trials.extend(events::trials());
    trials.extend(frames::trials());
    trials.extend(generated::trials());
    trials.extend(loops::trials());
    trials.extend(parts_of_runs::trials());
    trials.extend(preloaded::trials());
    trials.extend(ranks::trials());
    trials.extend(recording::trials());
    trials.extend(regions::trials());
    trials.extend(scaling::trials());
    trials.extend(metrics::trials());
    trials.extend(off_cpu::trials());
    trials.extend(openmp::trials());
    trials.extend(perf_data::trials());
    trials.extend(time_line::trials());
    trials.extend(timers::trials());
    trials
}

fn shares(scratch: &Scratch, by: By, variant: &str) -> Result<(), Verdict> {
    let profile = profiled(scratch, by, &guest(variant)?)?;
    check_shares(&profile)?;
    check_unwinds(&profile)
}

fn guest(variant: &str) -> Result<Vec<OsString>, Verdict> {
    guest_named("profile/shares", variant)
}

fn guest_named(name: &str, variant: &str) -> Result<Vec<OsString>, Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == name)
        .ok_or_else(|| format!("there is no guest {name}"))?;
    guest_programs::command(&guest, variant)
}

/// `unspool profile` with these arguments; cannot tell where the kernel forbids it.
fn profile(scratch: &Scratch, by: By, arguments: &[impl AsRef<OsStr>]) -> Result<Outcome, Verdict> {
    let outcome = run(
        scratch,
        &unspool(scratch, &["profile", by.option()]).arguments(arguments),
    )?;
    let said = outcome.stderr_text();
    match said.lines().find(|line| line.contains("perf_event")) {
        Some(reason) => Err(Verdict::CannotTell(reason.to_owned())),
        None => Ok(outcome),
    }
}

fn profiled(scratch: &Scratch, by: By, command: &[OsString]) -> Result<Value, Verdict> {
    profiled_with(scratch, by, &[], command)
}

fn profiled_with(
    scratch: &Scratch,
    by: By,
    options: &[OsString],
    command: &[OsString],
) -> Result<Value, Verdict> {
    let arguments = [options, &["--json".into(), "--".into()], command].concat();
    let outcome = profile(scratch, by, &arguments)?;
    if outcome.ending != Ending::Exited(0) {
        let invocation = unspool(scratch, &["profile", by.option()]).arguments(&arguments);
        return Err(wrong("this must succeed", &invocation, &outcome));
    }
    serde_json::from_str(&outcome.stdout_text())
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))
}

fn array<'a>(profile: &'a Value, name: &str) -> &'a [Value] {
    profile[name].as_array().map_or(&[], Vec::as_slice)
}

fn fail(problem: String) -> Result<(), Verdict> {
    Err(Verdict::Wrong(problem))
}

/// What a report has of a function, with what it called.
fn total_of(report: &Value, function: &str) -> f64 {
    let functions = array(report, "functions").iter();
    let of_name = functions.filter(|it| it["name"] == function);
    of_name.map(|it| number(&it["total"])).sum()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// The share of all time that was spent in `burn` on paths from `caller` to it.
fn share_from(profile: &Value, caller: &str) -> f64 {
    share_of(profile, caller, "burn")
}

/// The share of all time that was spent in a function on paths from `caller` to it, whatever the
/// kernel and the system's clock did below it.
fn share_of(profile: &Value, caller: &str, callee: &str) -> f64 {
    let name = |context: &Value| {
        let function = context["function"].as_u64().unwrap_or(u64::MAX);
        let function = usize::try_from(function).ok();
        let functions = array(profile, "functions");
        let found = function.and_then(|function| functions.get(function));
        found.and_then(|function| function["name"].as_str())
    };
    let contexts = array(profile, "calling_contexts");
    let is_wanted = |context: &&Value| {
        let parent = context["parent"].as_u64();
        let parent = parent.and_then(|parent| contexts.get(usize::try_from(parent).ok()?));
        name(context) == Some(callee) && parent.and_then(name) == Some(caller)
    };
    let wanted = contexts.iter().filter(is_wanted);
    let spent: f64 = wanted.map(|context| number(&context["total"])).sum();
    spent / number(&profile["total"])
}

/// How many seconds of a path's time may be told as another's, or as none. The kernel's samples
/// come once in a millisecond. Those of timers come when a tick meets the thread, which on a busy
/// machine is by chance, and stand for all since the one before, of whatever path that was; what
/// follows the last of a thread is missing.
fn uncertain(profile: &Value) -> f64 {
    match profile["source"] == "perf" {
        true => 0.036,
        false => 0.012 + number(&profile["longest"]) + missing(profile),
    }
}

/// How many seconds of their threads' clocks have not expired any timer.
fn missing(profile: &Value) -> f64 {
    let timers = &profile["timers"];
    number(&timers["used"]) - number(&timers["expirations"]) * number(&profile["period"])
}

/// What the guest spends on each path, of its 1.2 seconds.
fn check_shares(profile: &Value) -> Result<(), Verdict> {
    let paths = [
        ("left", 0.42),
        ("right", 0.18),
        ("descend", 0.2),
        ("on_signal", 0.2),
        ("other_thread", 0.2),
    ];
    for (caller, seconds) in paths {
        let (is, must) = (share_from(profile, caller), seconds / 1.2);
        if (is - must).abs() > uncertain(profile) / 1.2 {
            let problem = format!("{caller}: {is:.3} of the time, not {must:.3}");
            return Err(Verdict::Wrong(problem));
        }
    }
    Ok(())
}

/// Unwinds find the start of the thread, over callers that call.
fn check_unwinds(profile: &Value) -> Result<(), Verdict> {
    let (unwinds, steps) = (&profile["unwinds"], &profile["steps"]);
    let complete = number(&unwinds["complete"]) / number(&profile["samples"]);
    let is_well = complete > 0.99
        && number(&unwinds["failed"]) == 0.0
        && number(&steps["wrong"]) == 0.0
        && number(&steps["confirmed"]) > number(&profile["samples"]);
    match is_well {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("unwinds {unwinds}, steps {steps}"))),
    }
}

/// Without names, functions are told apart by call-frame information.
fn stripped(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    check_functions(&profiled(scratch, by, &guest("stripped")?)?)
}

/// Without call-frame information either, functions are told apart by their instructions, and unwound by
/// them.
fn bare(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    bare_variant(scratch, by, "")
}

/// The same of a program that has the C library in itself: where threads begin and handlers return to, it says
/// nothing either.
fn bare_static(scratch: &Scratch) -> Result<(), Verdict> {
    bare_variant(scratch, By::Kernel, "static")
}

fn bare_variant(scratch: &Scratch, by: By, variant: &str) -> Result<(), Verdict> {
    let program = scratch.path().join("shares-bare");
    let sections = [
        "--strip-all",
        "--remove-section=.eh_frame",
        "--remove-section=.eh_frame_hdr",
    ];
    let files = [guest(variant)?[0].clone(), program.clone().into()];
    let words: Vec<OsString> = sections
        .map(OsString::from)
        .into_iter()
        .chain(files)
        .collect();
    made(scratch.path(), "objcopy", &words)?;
    check_functions(&profiled(scratch, by, &[program.into()])?)
}

/// The functions of the guest of known shares, which have no names.
fn check_functions(profile: &Value) -> Result<(), Verdict> {
    check_unwinds(profile)?;
    let total = number(&profile["total"]);
    let mut shares: Vec<f64> = array(profile, "functions")
        .iter()
        .filter(|function| {
            let name = function["name"].as_str().unwrap_or_default();
            name.contains("shares") && name.contains("+0x")
        })
        .map(|function| number(&function["total"]) / total)
        .collect();
    shares.sort_by(|one, other| other.total_cmp(one));
    // burn; main, without the other thread; left; then right and what is as long.
    let expected = [1.0, 1.0 / 1.2, 0.35];
    let most = uncertain(profile) / 1.2;
    let is_right = |must: &f64| shares.iter().any(|is| (is - must).abs() < most);
    match expected.iter().all(is_right) && shares.len() < 20 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "shares {shares:?}, not {expected:?}"
        ))),
    }
}

/// The negative control: a program that spends its time otherwise.
fn exchanged(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let mut command = guest("")?;
    command.push("exchanged".into());
    match check_shares(&profiled(scratch, by, &command)?) {
        Ok(()) => Err(Verdict::Wrong(
            "exchanged shares were taken for right".to_owned(),
        )),
        Err(_) => Ok(()),
    }
}

/// A shell that starts one program after the other: each is a process, by its own name.
fn processes(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let program = guest("")?[0].display().to_string();
    let script = format!("{program}; {program}; exit 0");
    let command = ["sh", "-c", &script].map(OsString::from);
    let profile = profiled(scratch, by, &command)?;
    check_shares(&profile)?;
    let processes: BTreeSet<u64> = array(&profile, "threads")
        .iter()
        .filter(|thread| {
            thread["name"] == "profile-shares" && thread["samples"].as_u64() > Some(50)
        })
        .filter_map(|thread| thread["process"].as_u64())
        .collect();
    match processes.len() {
        2 => Ok(()),
        _ => Err(Verdict::Wrong(format!("{}", profile["threads"]))),
    }
}

/// A recording says later what was said at once.
fn kept(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let mut arguments: Vec<OsString> = ["--json", "--report", &report, "-o", &file, "--"]
        .map(OsString::from)
        .to_vec();
    arguments.extend(guest("")?);
    profile(scratch, by, &arguments)?;
    let at_once = std::fs::read_to_string(&report)?;
    let later = profile(scratch, by, &["--json", &file])?.stdout_text();
    if at_once != later || at_once.is_empty() {
        return Err(Verdict::Wrong(
            "the kept recording says something else".to_owned(),
        ));
    }
    let folded = profile(scratch, by, &["--folded", &file])?.stdout_text();
    let is_path = |line: &str| line.contains("main;descend;burn ");
    let text = profile(scratch, by, &[&file])?.stdout_text();
    let is_whole = ["Top down", "Bottom up", "failure rate", "burn.h:"]
        .iter()
        .all(|part| text.contains(part));
    match folded.lines().any(is_path) && is_whole {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{folded}\n{text}"))),
    }
}

fn endings(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let cases = [
        ("sh -c 'exit 3'", 3),
        ("sh -c 'kill -9 $$'", 137),
        ("/nowhere/at/all", 127),
        ("/etc/passwd", 126),
    ];
    for (program, status) in cases {
        let words: Vec<String> = match program.split_once(" -c ") {
            Some((shell, script)) => {
                let script = script.trim_matches('\'').to_owned();
                vec![shell.to_owned(), "-c".to_owned(), script]
            }
            None => vec![program.to_owned()],
        };
        let ending = profile(scratch, by, &words)?.ending;
        if ending != Ending::Exited(status) {
            return Err(Verdict::Wrong(format!(
                "{program}: {ending:?}, not {status}"
            )));
        }
    }
    Ok(())
}

/// What was recorded until the recorder was killed can be read, and is said to be a part. The
/// program kills it, which has used 1.2 s then; the recorder writes what it has twice in a second.
fn killed(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let file = scratch.path().join("recording");
    let path = file.display().to_string();
    let script = format!("{}; kill -9 $PPID", guest("")?[0].display());
    let arguments = [
        "profile",
        by.option(),
        "-o",
        &path,
        "--",
        "sh",
        "-c",
        &script,
    ];
    let outcome = run(scratch, &unspool(scratch, &arguments))?;
    if outcome.stderr_text().contains("perf_event") {
        return Err(Verdict::CannotTell("sampling is forbidden".to_owned()));
    }
    let later = profile(scratch, by, &["--json", &path])?;
    let read: Value = serde_json::from_str(&later.stdout_text())
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let is_part = later.ending == Ending::Exited(2) && read["elapsed"].is_null();
    cut_off_within_a_block(scratch, by, &file)?;
    let seconds = number(&read["total"]);
    match outcome.ending == Ending::Signalled(9) && seconds > 0.5 && is_part {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{seconds} s, {:?}, {:?}",
            outcome.ending, later.ending
        ))),
    }
}

fn cut_off_within_a_block(scratch: &Scratch, by: By, file: &Path) -> Result<(), Verdict> {
    let mut bytes = std::fs::read(file)?;
    bytes.pop();
    let cut = scratch.path().join("cut").display().to_string();
    std::fs::write(&cut, bytes)?;
    let outcome = profile(scratch, by, &[cut])?;
    match outcome.ending == Ending::Exited(2) && outcome.stderr_text().contains("left out") {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "cut off: {}",
            outcome.stderr_text()
        ))),
    }
}
