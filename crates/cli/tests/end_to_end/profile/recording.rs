//! The file of a recording: what it says of the run, and that limits of the program's are not its.

use libtest_mimic::Trial;
use unspool_guests::Ending;

use super::{By, array, by_both, guest, profile};
use crate::observer::{COMMAND, Verdict, natively, run, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let names = by_both("names_its_process", names_its_process);
    let limited = by_both("limited_file_size", limited_file_size);
    names.into_iter().chain(limited).collect()
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
