//! The file of a recording: what it says of the run, and that limits of the program's are not its.

use std::ffi::OsString;

use libtest_mimic::Trial;
use unspool_guests::Ending;

use super::{By, array, by_both, guest, profile};
use crate::observer::{COMMAND, Verdict, natively, run, trial, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let names = by_both("names_its_process", names_its_process);
    let limited = by_both("limited_file_size", limited_file_size);
    let exported = trial("profile::exported".to_owned(), exported);
    let read = trial("profile::exported_for_pprof".to_owned(), read_by_pprof);
    let kept = trial("profile::refusals_leave_the_file".to_owned(), left);
    let failed = trial("profile::report_without_an_export".to_owned(), failed);
    let others = [exported, read, kept, failed];
    names.into_iter().chain(limited).chain(others).collect()
}

/// What is not run leaves the file of an earlier run as it was.
fn left(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("recording");
    let path = file.display().to_string();
    let cases: [(&[&str], &str); 4] = [
        (&["--backend=perf", "--clock=wall", "-o", &path, "true"], ""),
        (&["--backend=timer", "-o", &path, "/nowhere/at/all"], ""),
        (&["--backend=timer", "-o", &path, "--pid", "1"], ""),
        // The control: what runs takes the file's place.
        (&["--backend=timer", "-o", &path, "true"], "runs"),
    ];
    for (arguments, runs) in cases {
        std::fs::write(&file, "an earlier run")?;
        let outcome = run(
            scratch,
            &unspool(scratch, &["profile"]).arguments(arguments),
        )?;
        let has_run = outcome.ending == Ending::Exited(0);
        let is_left = std::fs::read(&file)? == b"an earlier run";
        if has_run == runs.is_empty() || is_left == has_run {
            let problem = format!("{arguments:?}: {:?}, left {is_left}", outcome.ending);
            return Err(Verdict::Wrong(problem));
        }
    }
    Ok(())
}

/// Where one file for other programs cannot be written, the report and the other files are there.
fn failed(scratch: &Scratch) -> Result<(), Verdict> {
    let speedscope = scratch.path().join("speedscope");
    let path = speedscope.display().to_string();
    let options = ["--pprof", "/nowhere/file", "--speedscope", &path, "--"];
    let options = options.map(OsString::from);
    let outcome = profile(scratch, By::Timers, &[&options[..], &guest("")?].concat())?;
    let (shown, said) = (outcome.stdout_text(), outcome.stderr_text());
    let is_told = said.contains("cannot write /nowhere/file");
    let is_right = outcome.ending == Ending::Exited(125)
        && shown.contains("Bottom up")
        && std::fs::read(&speedscope).is_ok_and(|text| text.starts_with(b"{"));
    match is_told && is_right {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{:?}: {shown}\n{said}",
            outcome.ending
        ))),
    }
}

/// The recording is of the process that was started, by its number.
fn names_its_process(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let arguments = [
        "--report", &report, "-o", &file, "--", "sh", "-c", "echo $$",
    ];
    let said = profile(scratch, by, &arguments)?.stdout_text();
    let info = run(scratch, &unspool(scratch, &["info", &file]))?.stdout_text();
    let line = info.lines().find_map(|line| line.strip_prefix("process "));
    match line.is_some_and(|number| number.trim() == said.trim()) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("process {said}: {info}"))),
    }
}

/// What other programs read has the guest's path and its time, of the run and of what was kept of
/// it; and where it cannot be written, that is said.
fn exported(scratch: &Scratch) -> Result<(), Verdict> {
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (file, speedscope) = (path("recording"), path("speedscope"));
    let (pprof, firefox) = (path("pprof"), path("firefox"));
    let guest = guest("")?[0].display().to_string();
    let arguments = ["-o", &file, "--speedscope", &speedscope, "--", &guest];
    profile(scratch, By::Kernel, &arguments)?;
    let database = scratch.path().join("of/hpctoolkit");
    let directory = database.display().to_string();
    let arguments = ["--pprof", &pprof, "--firefox", &firefox];
    let arguments = [&arguments[..], &["--hpctoolkit", &directory, &file]].concat();
    profile(scratch, By::Kernel, &arguments)?;
    for name in ["meta.db", "profile.db", "cct.db", "trace.db"] {
        if !std::fs::read(database.join(name))?.starts_with(b"HPCTOOLKIT") {
            return Err(Verdict::Wrong(format!("{name} is no database")));
        }
    }
    let read = |path: &str| -> Result<serde_json::Value, Verdict> {
        serde_json::from_slice(&std::fs::read(path)?)
            .map_err(|problem| Verdict::Wrong(format!("{path}: {problem}")))
    };
    let speedscope = read(&speedscope)?;
    let frames = &speedscope["shared"]["frames"];
    let name = |frame: &serde_json::Value| {
        let frame = &frames[usize::try_from(frame.as_u64().unwrap_or(0)).unwrap_or(0)];
        frame["name"].as_str().unwrap_or_default().to_owned()
    };
    let is_left = |stack: &serde_json::Value| {
        let stack = stack.as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<String> = stack.iter().map(name).collect();
        names
            .windows(3)
            .any(|part| part == ["main", "left", "burn"])
    };
    let (mut left, mut all) = (0, 0);
    for thread in array(&speedscope, "profiles") {
        let weights = array(thread, "weights").iter();
        for (stack, weight) in array(thread, "samples").iter().zip(weights) {
            let ns = weight.as_u64().unwrap_or(0);
            all += ns;
            left += if is_left(stack) { ns } else { 0 };
        }
    }
    let share = left as f64 / all as f64;
    let threads = read(&firefox)?["threads"].take();
    let names: Vec<&str> = threads
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter_map(|thread| thread["name"].as_str())
        .collect();
    let is_compressed = std::fs::read(&pprof)?.starts_with(&[0x1f, 0x8b]);
    if (share - 0.35).abs() > 0.03 || names != ["profile-shares"; 2] || !is_compressed {
        let problem = format!("{share} of the time, threads {names:?}, {is_compressed}");
        return Err(Verdict::Wrong(problem));
    }
    let refused = profile(scratch, By::Kernel, &["--pprof", "/nowhere/file", &file])?;
    match refused.stderr_text().contains("cannot write /nowhere/file") {
        true => Ok(()),
        false => Err(Verdict::Wrong(refused.stderr_text().to_string())),
    }
}

/// The program that the format is for reads it, and has the shares that are known: of the guest,
/// and of one that spends its time otherwise.
fn read_by_pprof(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("pprof").display().to_string();
    let mut command = guest("")?;
    for exchanged in [false, true] {
        if exchanged {
            command.push("exchanged".into());
        }
        let options = ["--report", "/dev/null", "--pprof", &file, "--"].map(OsString::from);
        profile(scratch, By::Kernel, &[&options[..], &command].concat())?;
        let script = "exec go tool pprof -top -unit=ms \"$0\"";
        let read = ["sh", "-c", script, &file];
        let outcome = run(scratch, &natively(scratch, &read))?;
        if outcome.ending == Ending::Exited(127) {
            return Err(Verdict::CannotTell("there is no go".to_owned()));
        }
        let said = outcome.stdout_text();
        // Time, its share, the sum so far; the same with what was called; the name.
        let share = |name: &str| {
            let line = said
                .lines()
                .find(|line| line.ends_with(&format!(" {name}")))?;
            let share = line.split_ascii_whitespace().nth(4)?;
            share.strip_suffix('%')?.parse::<f64>().ok()
        };
        let left = if exchanged { 15.0 } else { 35.0 };
        let expected = [
            ("left", left),
            ("right", 50.0 - left),
            ("other_thread", 100.0 / 6.0),
        ];
        for (name, must) in expected {
            if !share(name).is_some_and(|is| (is - must).abs() < 3.0) {
                let error = outcome.stderr_text();
                return Err(Verdict::Wrong(format!(
                    "{name}, not {must} %: {said}{error}"
                )));
            }
        }
    }
    Ok(())
}

/// The program is under the limit, with the signal that tells of it; the recording is not.
fn limited_file_size(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    profile(scratch, by, &["true"])?;
    let file = scratch.path().join("recording").display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let guest = guest("")?[0].display().to_string();
    let written = scratch.path().join("written").display().to_string();
    let program = format!("ulimit -S -f; {guest}; exec head -c 5000 /dev/zero > {written}");
    let limited = "ulimit -S -f 4; exec \"$@\"";
    let own = COMMAND.display().to_string();
    let recorder = [
        &own,
        "profile",
        by.option(),
        "--report",
        &report,
        "-o",
        &file,
        "--",
    ];
    let command = [
        &["sh", "-c", limited, "sh"][..],
        &recorder,
        &["sh", "-c", &program],
    ]
    .concat();
    let outcome = run(scratch, &natively(scratch, &command))?;
    let said = outcome.stdout_text();
    let is_limited = outcome.ending == Ending::Exited(128 + 25) && said.trim() == "4";
    let written = std::fs::metadata(&written)?.len();
    let recorded = std::fs::metadata(&file)?.len();
    let later: serde_json::Value =
        serde_json::from_str(&profile(scratch, by, &["--json", &file])?.stdout_text())
            .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let is_whole = !later["elapsed"].is_null() && !array(&later, "functions").is_empty();
    match is_limited && written == 2048 && recorded > written && is_whole {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{:?}, {said:?}, {written} and {recorded} bytes\n{}",
            outcome.ending,
            outcome.stderr_text()
        ))),
    }
}
