//! Files of `perf record`, if that is installed.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{By, array, check_shares, check_unwinds, guest, number, profile};
use crate::observer::{Verdict, natively, run, trial};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::perf_data::{name}"), test)
    };
    vec![
        test("copied_stacks", copied_stacks),
        test("compressed", compressed),
        test("through_a_pipe", through_a_pipe),
        test("several_events", several_events),
        test("another_file_in_its_place", another_file),
        test("kept", kept),
        test("cut_off", cut_off),
        test("refusals", refusals),
    ]
}

/// The path of a file that `perf record` has made of a command with these options.
fn recorded(scratch: &Scratch, options: &[&str], command: &[OsString]) -> Result<String, Verdict> {
    let file = scratch.path().join("perf.data").display().to_string();
    recorded_by(
        scratch,
        &["perf", "record", "-q", "-o", &file],
        options,
        command,
    )?;
    Ok(file)
}

/// The same of what has gone through a pipe, into which `perf record` writes in another way.
fn piped(scratch: &Scratch, options: &[&str], command: &[OsString]) -> Result<String, Verdict> {
    let file = scratch.path().join("perf.data").display().to_string();
    let through = "perf record -q -o - \"$@\" | cat > \"$0\"";
    recorded_by(scratch, &["sh", "-c", through, &file], options, command)?;
    Ok(file)
}

fn recorded_by(
    scratch: &Scratch,
    perf: &[&str],
    options: &[&str],
    command: &[OsString],
) -> Result<(), Verdict> {
    let own = [perf, options, &["--"]].concat();
    let mut words: Vec<OsString> = own.iter().map(OsString::from).collect();
    words.extend_from_slice(command);
    let has_perf = std::process::Command::new("perf").arg("--version").output();
    if !has_perf.is_ok_and(|output| output.status.success()) {
        return Err(Verdict::CannotTell("perf is not installed".to_owned()));
    }
    let outcome = run(scratch, &natively(scratch, &words))?;
    match outcome.ending {
        Ending::Exited(0) => Ok(()),
        _ => Err(Verdict::CannotTell(format!(
            "perf: {}",
            outcome.stderr_text()
        ))),
    }
}

const BY_STACKS: [&str; 4] = ["-e", "cpu-clock", "-F", "1000"];

fn read(scratch: &Scratch, options: &[&str], file: &str) -> Result<(Value, String), Verdict> {
    let outcome = profile(scratch, By::Kernel, &[options, &["--json", file]].concat())?;
    let (text, said) = (outcome.stdout_text(), outcome.stderr_text().to_string());
    match serde_json::from_str(&text) {
        Ok(json) => Ok((json, said)),
        Err(_) => Err(Verdict::Wrong(format!(
            "{:?}: {said}{text}",
            outcome.ending
        ))),
    }
}

/// Whether a report has all the time of the guest, as perf itself tells it of the file: by the clock of a
/// processor that others use, too, or that a machine under this one takes away, that may be more.
fn has_all_time(scratch: &Scratch, report: &Value, file: &str) -> Result<bool, Verdict> {
    let command = ["perf", "script", "-F", "event,period", "-i", file];
    let said = run(scratch, &natively(scratch, &command))?.stdout_text();
    let of_clock = said.lines().filter(|line| line.contains("cpu-clock"));
    let periods = of_clock.filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let expected = periods.sum::<f64>() / 1e9;
    let total = number(&report["total"]);
    Ok((total - expected).abs() < 1e-6 && (1.15..1.6).contains(&total))
}

/// Copies of stacks are unwound as our own are: known shares come out, over callers that call.
fn copied_stacks(scratch: &Scratch) -> Result<(), Verdict> {
    are_unwound(scratch, recorded, &[])
}

/// So are those that perf has compressed.
fn compressed(scratch: &Scratch) -> Result<(), Verdict> {
    are_unwound(scratch, recorded, &["-z"])
}

/// So are those that have gone through a pipe, with what perf says of files and of the command.
fn through_a_pipe(scratch: &Scratch) -> Result<(), Verdict> {
    are_unwound(scratch, piped, &[])?;
    let options = [&BY_STACKS[..], &["-g"]].concat();
    let facts = |file: &str| -> Result<(Value, Value), Verdict> {
        let (report, _) = read(scratch, &[], file)?;
        let threads = array(&report, "threads").iter();
        let names: Vec<&Value> = threads.map(|it| &it["name"]).collect();
        Ok((report["command"].clone(), serde_json::json!(names)))
    };
    let direct = facts(&recorded(scratch, &options, &guest("")?)?)?;
    let through = facts(&piped(scratch, &options, &guest("")?)?)?;
    match direct.1 == through.1 && through.0.to_string().contains("record") {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{direct:?} and {through:?}"))),
    }
}

type Recorder = fn(&Scratch, &[&str], &[OsString]) -> Result<String, Verdict>;

fn are_unwound(scratch: &Scratch, recorder: Recorder, more: &[&str]) -> Result<(), Verdict> {
    let options = [&BY_STACKS[..], &["--call-graph=dwarf,16384"], more].concat();
    let file = recorder(scratch, &options, &guest("")?)?;
    let (mut report, _) = read(scratch, &[], &file)?;
    let is_perf = report["source"] == "perf record" && report["user"].is_null();
    // They are the kernel's samples as ours are, and as certain.
    report["source"] = "perf".into();
    check_shares(&report)?;
    check_unwinds(&report)?;
    match is_perf && has_all_time(scratch, &report, &file)? {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{report:#}"))),
    }
}

/// Samples of what stands for no time are left out, which is said; those of the clock are there.
fn several_events(scratch: &Scratch) -> Result<(), Verdict> {
    let options = ["-e", "page-faults", "-e", "cpu-clock", "-F", "1000", "-g"];
    let file = recorded(scratch, &options, &guest("")?)?;
    let (report, said) = read(scratch, &[], &file)?;
    let total = number(&report["total"]);
    let burn = array(&report, "functions").iter();
    let burn: f64 = burn
        .filter(|it| it["name"] == "burn")
        .map(|it| number(&it["self"]))
        .sum();
    let is_told = said.contains("samples of other events were left out");
    let is_whole = has_all_time(scratch, &report, &file)?;
    match is_told && is_whole && burn > 0.9 * total {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{burn} of {total} s: {said}"))),
    }
}

/// A file that has been built anew since is not taken for what was sampled.
fn another_file(scratch: &Scratch) -> Result<(), Verdict> {
    let program = scratch.path().join("program");
    std::fs::copy(&guest("")?[0], &program)?;
    let options = [&BY_STACKS[..], &["-g"]].concat();
    let file = recorded(scratch, &options, &[program.clone().into()])?;
    let named = |report: &Value| {
        let functions = array(report, "functions").iter();
        functions.filter(|it| it["name"] == "burn").count()
    };
    let before = named(&read(scratch, &[], &file)?.0);
    std::fs::remove_file(&program)?;
    std::fs::copy("/bin/true", &program)?;
    let after = named(&read(scratch, &[], &file)?.0);
    match (before, after) {
        (1, 0) => Ok(()),
        _ => Err(Verdict::Wrong(format!(
            "{before} and {after} functions have names"
        ))),
    }
}

/// What is kept of it says the same later.
fn kept(scratch: &Scratch) -> Result<(), Verdict> {
    let options = [&BY_STACKS[..], &["-g"]].concat();
    let file = recorded(scratch, &options, &guest("")?)?;
    let own = scratch.path().join("recording").display().to_string();
    let at_once = read(scratch, &["-o", &own], &file)?.0;
    let later = read(scratch, &[], &own)?.0;
    match at_once == later && number(&at_once["total"]) > 1.0 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{at_once:#}\n{later:#}"))),
    }
}

/// Of a file that was cut off there is what was whole, and the status says so. On one processor: perf
/// writes those of one processor behind those of another, and which code was mapped would be among them.
fn cut_off(scratch: &Scratch) -> Result<(), Verdict> {
    let options = [&BY_STACKS[..], &["-g"]].concat();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let allowed = status
        .lines()
        .find_map(|it| it.strip_prefix("Cpus_allowed_list:"));
    let allowed = allowed.unwrap_or_default().trim();
    let first = allowed.split([',', '-']).next().unwrap_or_default();
    let on_one = ["taskset", "-c", first].map(OsString::from);
    let command = [&on_one[..], &guest("")?].concat();
    let file = recorded(scratch, &options, &command)?;
    let whole = std::fs::read(&file)?;
    std::fs::write(&file, &whole[..whole.len() / 2])?;
    let outcome = profile(scratch, By::Kernel, &["--view=flat", &file])?;
    let (text, said) = (outcome.stdout_text(), outcome.stderr_text());
    let is_told = said.contains("ends in the middle") && outcome.ending == Ending::Exited(2);
    match is_told && text.contains("burn") {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{:?}: {said}{text}",
            outcome.ending
        ))),
    }
}

fn refusals(scratch: &Scratch) -> Result<(), Verdict> {
    // What is advised is done.
    let per_thread = [&BY_STACKS[..], &["--per-thread"]].concat();
    let file = recorded(scratch, &per_thread, &guest("")?)?;
    let outcome = profile(scratch, By::Kernel, &[&file])?;
    let said = outcome.stderr_text();
    if outcome.ending != Ending::Exited(125) || !said.contains("perf record --timestamp") {
        return Err(Verdict::Wrong(format!("{:?}, {said}", outcome.ending)));
    }
    let with_times = [&per_thread[..], &["--timestamp"]].concat();
    let file = recorded(scratch, &with_times, &guest("")?)?;
    let total = number(&read(scratch, &[], &file)?.0["total"]);
    // Of the first thread alone.
    if (total - 1.0).abs() > 0.1 {
        return Err(Verdict::Wrong(format!("{total} s with --timestamp")));
    }
    let file = recorded(scratch, &["-e", "page-faults"], &guest("")?)?;
    let cases = [
        (&[&*file][..], "do not stand for time"),
        (
            &[&file, "--json"],
            "is a recording, and --json stands behind it",
        ),
    ];
    for (arguments, told) in cases {
        let outcome = profile(scratch, By::Kernel, arguments)?;
        let said = outcome.stderr_text();
        if outcome.ending != Ending::Exited(125) || !said.contains(told) {
            return Err(Verdict::Wrong(format!(
                "{arguments:?}: {:?}, {said}",
                outcome.ending
            )));
        }
    }
    Ok(())
}
