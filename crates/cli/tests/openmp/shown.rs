//! The text of the report: what it has besides the figures, and that following what it says of hidden
//! rows shows them.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::command::{Compiler, Verdict, build, check, json, openmp, programs, trial};

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("shown::rows".to_owned(), rows),
        trial("shown::concurrency".to_owned(), concurrency),
    ]
}

fn program(name: &str, compiler: Compiler) -> Result<String, Verdict> {
    let program = build(&programs().join(name), compiler, &[])?;
    Ok(program.to_string_lossy().into_owned())
}

fn kept(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    folder.join(name).to_string_lossy().into_owned()
}

/// What a text says to type to see more rows, as often as it says so.
fn asked_for(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.split_once("--rows "));
    lines
        .filter_map(|(_, rest)| rest.split_whitespace().next())
        .collect()
}

/// Every table has as many rows as are asked for, and says how many there are.
fn rows() -> Result<(), Verdict> {
    let file = kept("shown-rows");
    let run = openmp(&["-o", &file, &program("nested.c", Compiler::Gcc)?, "with"]);
    let whole = String::from_utf8_lossy(&run.stdout).into_owned();
    check(asked_for(&whole).is_empty(), || whole.clone())?;
    let text = |rows: &str| {
        let output = openmp(&["--by", "construct", "--rows", rows, &file]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let cut = text("1");
    let wanted = asked_for(&cut);
    check(wanted.len() >= 3, || cut.clone())?;
    let most: Option<u32> = wanted.iter().filter_map(|rows| rows.parse().ok()).max();
    let most = most.unwrap_or_default();
    let all = text(&most.to_string());
    check(asked_for(&all).is_empty(), || all.clone())?;
    check(
        !asked_for(&text(&(most - 1).to_string())).is_empty(),
        || format!("{most} rows are more than there are\n{cut}"),
    )?;
    for part in [
        "ompP",
        "Work on the critical path",
        "called from nested.c:",
        "Synchronisation point",
    ] {
        check(all.contains(part), || format!("no {part}: {all}"))?;
    }
    check(!all.contains("Threads at work at once"), || all.clone())
}

/// Threads at work, added up over all levels, are what each of them worked.
fn concurrency() -> Result<(), Verdict> {
    let (file, line) = (kept("shown-concurrency"), kept("shown-concurrency.json"));
    let program = program("barrier.c", Compiler::Gcc)?;
    let mut means = Vec::new();
    for word in ["with", "without"] {
        let report = json(&["--timeline", &line, "-o", &file, &program, word])?;
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let levels = report["concurrency"].as_array().cloned();
        let levels: Vec<f64> = levels.iter().flatten().map(number).collect();
        let execution = number(&report["execution_time"]);
        let sum: f64 = levels.iter().sum();
        check((sum - execution).abs() < 1e-6, || {
            format!("{levels:?} are not {execution} s")
        })?;
        let worked = levels.iter().zip(0_u8..);
        let worked: f64 = worked
            .map(|(time, threads)| time * f64::from(threads))
            .sum();
        // Without a processor a thread is at work as well; and where none has begun with a region or
        // all have ended, the one that forks it is.
        let losses = &report["losses"];
        let besides = ["processor", "duplicated", "startup", "desynchronisation"];
        let besides: f64 = besides.iter().map(|class| number(&losses[*class])).sum();
        let least = number(&report["productive"]);
        let most = least + besides;
        check(worked > least - 0.002 && worked < most + 0.002, || {
            format!("{worked} s of work, not {least} to {most}: {levels:?}")
        })?;
        means.push(worked / execution);
        let text = openmp(&[&file]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        check(text.contains("Threads at work at once"), || text.clone())?;
    }
    // The control: where work is divided evenly, more threads work at once.
    check(means[1] > means[0], || format!("{means:?}"))
}
