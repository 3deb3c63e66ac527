//! `unspool race --locks` on programs whose deadlocks and misuse of locks are known:
//! `crates/guests/locks`. Each source is two: right as it stands, and with WRONG defined it has what
//! its comment `found` says, and nothing else. In the program's process and over a trace of the run
//! the answer must be the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/locks");
    let files = std::fs::read_dir(folder).expect("the folder of locks is there");
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        for is_wrong in [false, true] {
            for level in ["-O0", "-O2"] {
                let twin = if is_wrong { "wrong" } else { "right" };
                let file = super::file_name(&path);
                let name = format!("races::locks::{file}::{twin}::{}", &level[1..]);
                let source: PathBuf = path.clone();
                trials.push(trial(name, move |scratch| {
                    as_said(scratch, &source, is_wrong, level)
                }));
            }
        }
    }
    trials
}

fn as_said(scratch: &Scratch, source: &Path, is_wrong: bool, level: &str) -> Result<(), Verdict> {
    let program = scratch.path().join("program");
    let is_cpp = source.extension().is_some_and(|ending| ending == "cpp");
    let compiler = if is_cpp { "g++" } else { "gcc" };
    let define = if is_wrong { "-DWRONG" } else { "-DRIGHT" };
    let build = natively(scratch, &[compiler, "-g", level, "-pthread", define, "-o"])
        .arguments([&program, source])
        .limit(Duration::from_secs(120));
    run_well(scratch, &build)?;
    let (trace, answer) = (scratch.path().join("trace"), scratch.path().join("answer"));
    let live = unspool(scratch, &["race", "--locks", "--json", "--record"])
        .arguments([trace.as_os_str(), "-o".as_ref(), answer.as_os_str()])
        .arguments(["--".as_ref(), program.as_os_str()]);
    let outcome = run(scratch, &live)?;
    let text = std::fs::read_to_string(&answer)?;
    let over_file = unspool(scratch, &["race", "--json"]).arguments([&trace]);
    let read = run(scratch, &over_file)?;
    if read.stdout_text() != text {
        return Err(wrong(
            "the answer must be that of the run",
            &over_file,
            &read,
        ));
    }
    let found: Value = serde_json::from_str(&text)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let list = |name: &str| found[name].as_array().cloned().unwrap_or_default();
    let deadlocks = list("deadlocks")
        .into_iter()
        .map(|it| match it["is_actual"] {
            Value::Bool(true) => "deadlock".to_owned(),
            _ => "possible-deadlock".to_owned(),
        });
    let misuse = list("misuse").into_iter();
    let misuse = misuse.map(|it| it["kind"].as_str().unwrap_or_default().to_owned());
    let mut kinds: Vec<String> = deadlocks.chain(misuse).collect();
    kinds.dedup();
    let said = std::fs::read_to_string(source)?;
    let said = said
        .lines()
        .find_map(|line| line.strip_prefix("// found: "));
    let expected: Vec<String> = said
        .filter(|_| is_wrong)
        .map(str::to_owned)
        .into_iter()
        .collect();
    // A program that hangs is ended by its own alarm, and ends so observed, too.
    let ends = match kinds.first().map(String::as_str) {
        Some("deadlock") => matches!(outcome.ending, Ending::Signalled(_)),
        Some(_) => outcome.ending == Ending::Exited(66),
        None => outcome.ending == Ending::Exited(0),
    };
    let were_looked_at = found["locks_looked_at"] == true && list("races").is_empty();
    match kinds == expected && ends && were_looked_at {
        true => Ok(()),
        false => Err(wrong(
            &format!("{expected:?} must be found: {found:#}"),
            &live,
            &outcome,
        )),
    }
}
