//! Nothing is recorded as long as there is one thread, and all calls are known that it is in when it gets
//! company: as in a trace of the whole.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Invocation;

use super::{Build, free_builds, own_source, told};
use crate::observer::{Verdict, run, run_well, trial, unspool};
use crate::scratch::Scratch;

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for build in free_builds(&source()) {
        for place in ["recursion", "callback", "handler"] {
            let name = format!("races::first_thread::{place}::{}", build.compiled());
            trials.push(trial(name, move |scratch| {
                as_over_a_whole_trace(scratch, build, place)
            }));
        }
        let name = format!("races::first_thread::none::{}", build.compiled());
        trials.push(trial(name, move |scratch| records_nothing(scratch, build)));
        let name = format!("races::first_thread::child::{}", build.compiled());
        trials.push(trial(name, move |scratch| in_a_child(scratch, build)));
    }
    trials
}

fn source() -> PathBuf {
    own_source("first_thread.c")
}

fn functions(stack: &Value) -> Vec<String> {
    let frames = stack.as_array().into_iter().flatten();
    let names = frames.filter_map(|frame| frame["function"].as_str());
    names.map(str::to_owned).collect()
}

/// The stacks on which `counter` is accessed, and those on which threads were created.
fn stacks(answer: &Value) -> BTreeSet<Vec<String>> {
    let races = answer["races"].as_array().into_iter().flatten();
    let races = races.filter(|race| race["object"]["variable"] == "counter");
    let sides = races.flat_map(|race| [&race["first"]["stack"], &race["second"]["stack"]]);
    let threads = answer["threads"].as_array().into_iter().flatten();
    let created = threads.map(|thread| &thread["creation_stack"]);
    sides.chain(created).map(functions).collect()
}

fn json(text: &str) -> Result<Value, Verdict> {
    serde_json::from_str(text).map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))
}

fn answer(scratch: &Scratch, command: &Invocation) -> Result<Value, Verdict> {
    run(scratch, command)?;
    json(&std::fs::read_to_string(scratch.path().join("answer"))?)
}

/// Looks for races while a program runs that creates its thread at this place, by a command that begins
/// so; the answer is in `answer`.
fn live(scratch: &Scratch, command: &[&str], (program, place): (&Path, &str)) -> Invocation {
    let to = scratch.path().join("answer");
    unspool(scratch, command).arguments([
        "-o".as_ref(),
        to.as_os_str(),
        "--".as_ref(),
        program.as_os_str(),
        place.as_ref(),
    ])
}

fn as_over_a_whole_trace(scratch: &Scratch, build: Build, place: &str) -> Result<(), Verdict> {
    let program = build.of(scratch, &source())?;
    let (trace, to) = (scratch.path().join("trace"), scratch.path().join("answer"));
    let live = live(scratch, &["race", "--json"], (&program, place));
    let in_program = answer(scratch, &live)?;
    if in_program["trace_is_whole"] != true {
        return Err(told(format!("records are missing: {in_program:#}"), &live));
    }
    let found = stacks(&in_program);
    let record = unspool(scratch, &["trace", "-o"]).arguments([
        trace.as_os_str(),
        "--".as_ref(),
        program.as_os_str(),
        place.as_ref(),
    ]);
    run_well(scratch, &record)?;
    let over_file = unspool(scratch, &["race", "--json", "-o"]).arguments([&to, &trace]);
    let expected = stacks(&answer(scratch, &over_file)?);
    let of_main = |stack: &&Vec<String>| {
        stack.iter().any(|it| it == "creates") && stack.iter().any(|it| it == "main")
    };
    let is_told = found.iter().filter(of_main).count() >= 2;
    // A whole trace tells where the signal came, too.
    let is_same = place == "handler" || found == expected;
    match is_told && is_same {
        true => Ok(()),
        false => Err(told(
            format!("the stacks are {found:#?}, over the whole {expected:#?}"),
            &live,
        )),
    }
}

/// The file that a child writes where its parent writes this one.
fn of_child(scratch: &Scratch, parents: &str) -> Result<PathBuf, Verdict> {
    let start = format!("{parents}.");
    let files = std::fs::read_dir(scratch.path())?.flatten();
    let mut names = files.map(|file| file.path());
    let is_childs = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start)
    };
    names
        .find(is_childs)
        .ok_or_else(|| Verdict::Wrong(format!("no child has written {start}…")))
}

/// A child has one thread, however many its parent has.
fn in_a_child(scratch: &Scratch, build: Build) -> Result<(), Verdict> {
    let program = build.of(scratch, &source())?;
    let trace = scratch.path().join("trace");
    let record = ["race", "--json", "--record", &trace.to_string_lossy()];
    let live = live(scratch, &record, (&program, "child"));
    run(scratch, &live)?;
    let childs = json(&std::fs::read_to_string(of_child(scratch, "answer")?)?)?;
    let of_main = |stack: &Vec<String>| {
        stack.iter().any(|it| it == "creates") && stack.iter().any(|it| it == "main")
    };
    if childs["trace_is_whole"] != true || !stacks(&childs).iter().any(of_main) {
        return Err(told(format!("the child's answer: {childs:#}"), &live));
    }
    let info = unspool(scratch, &["info", "--json"]).arguments([of_child(scratch, "trace")?]);
    let info = json(&run_well(scratch, &info)?.stdout_text())?;
    let threads = info["threads"].as_array().into_iter().flatten();
    let accesses: u64 = threads
        .filter_map(|thread| thread["accesses"].as_u64())
        .sum();
    // What it does alone is more.
    match (1000..100_000).contains(&accesses) {
        true => Ok(()),
        false => Err(told(format!("{accesses} accesses are recorded"), &live)),
    }
}

/// Of a program that creates no thread, and of what comes before the first one.
fn records_nothing(scratch: &Scratch, build: Build) -> Result<(), Verdict> {
    let program = build.of(scratch, &source())?;
    let live =
        unspool(scratch, &["race", "--"]).arguments([program.as_os_str(), "nowhere".as_ref()]);
    let outcome = run_well(scratch, &live)?;
    match outcome.stderr_text().contains(" 0 accesses and ") {
        true => Ok(()),
        false => Err(told(outcome.stderr_text(), &live)),
    }
}
