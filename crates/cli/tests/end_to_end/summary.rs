//! What the user is told of a recording at its end, and what the file keeps of it.

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Outcome};

use crate::observer::{Verdict, natively, run, run_well, traced, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "summary::counts_and_the_way_to_the_slowdown".to_owned(),
            counts,
        ),
        trial("summary::slowdown".to_owned(), slowdown),
        trial(
            "summary::input_that_cannot_be_read_twice".to_owned(),
            input_that_cannot_be_read_twice,
        ),
    ]
}

/// The line that tells what was recorded.
fn summary_of(outcome: &Outcome) -> Result<String, Verdict> {
    let text = outcome.stderr_text();
    let line = text
        .lines()
        .find(|line| line.starts_with("unspool: process "));
    line.map(str::to_owned)
        .ok_or_else(|| Verdict::Wrong(format!("there is no summary in: {text}")))
}

/// The totals as `info --json` has them.
fn totals(scratch: &Scratch, file: &std::path::Path) -> Result<Value, Verdict> {
    let info = unspool(
        scratch,
        &["info".as_ref(), "--json".as_ref(), file.as_os_str()],
    );
    let outcome = run(scratch, &info)?;
    let parsed: Result<Value, _> = serde_json::from_slice(&outcome.stdout);
    parsed
        .map(|information| information["totals"].clone())
        .map_err(|problem| wrong(&format!("JSON: {problem}"), &info, &outcome))
}

fn expect(what: &str, holds: bool, found: &dyn std::fmt::Display) -> Result<(), Verdict> {
    match holds {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{what}, but: {found}"))),
    }
}

/// The summary's numbers are those of the file; a file that was cut off tells no measurements.
fn counts(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("order/increment", &["3", "300"])?;
    let file = scratch.path().join("counted.unspool");
    let outcome = run_well(scratch, &traced(scratch, &[], &file, &command))?;
    let line = summary_of(&outcome)?;
    let totals_whole = totals(scratch, &file)?;
    let number = |name: &str| totals_whole[name].as_u64().unwrap_or(0);
    let parts = [
        "4 threads".to_owned(),
        format!("{} accesses", number("accesses")),
        format!("{} bytes", number("file_bytes")),
        "slowdown: --measure-slowdown".to_owned(),
        "nothing dropped".to_owned(),
    ];
    for part in parts {
        expect(&format!("`{part}` is said"), line.contains(&part), &line)?;
    }
    let measured = number("translated_code_bytes") > 1000
        // Four threads, of which all but perhaps one had a buffer at the same time.
        && number("buffer_bytes") >= 3 * 8 * (1 << 15)
        && number("processor_ns") > 0
        && totals_whole["slowdown"].is_null();
    expect(
        "code, buffers and time are measured",
        measured,
        &totals_whole,
    )?;

    let mut bytes = std::fs::read(&file)?;
    bytes.truncate(bytes.len() * 9 / 10);
    std::fs::write(&file, bytes)?;
    let totals_cut = totals(scratch, &file)?;
    let absent = ["translated_code_bytes", "buffer_bytes", "processor_ns"]
        .iter()
        .all(|name| totals_cut[*name].is_null());
    expect("a file that was cut off tells none", absent, &totals_cut)
}

/// The program runs natively first; only what the observed run prints is seen.
fn slowdown(scratch: &Scratch) -> Result<(), Verdict> {
    let input = scratch.work().join("input");
    let lines: String = (0..60_000)
        .map(|number| format!("{}\n", number * 7919 % 60_013))
        .collect();
    std::fs::write(&input, lines)?;
    let file = scratch.path().join("slowdown.unspool");
    // `tee` notes each run in a file: it is run twice.
    let script = "sort -n | tee -a sorted; echo done >&2";
    let command = ["bash", "-c", script];
    let options = ["--measure-slowdown", "--order", "ticket"];
    let native = run_well(scratch, &natively(scratch, &command).stdin(&input))?;
    std::fs::remove_file(scratch.work().join("sorted"))?;
    let observed_run = traced(scratch, &options, &file, &command).stdin(&input);
    let observed = run_well(scratch, &observed_run)?;
    let twice = native.stdout.len() * 2;
    let sorted = std::fs::read(scratch.work().join("sorted"))?.len();
    if observed.stdout != native.stdout || sorted != twice {
        return Err(wrong(
            "both runs read all, one is seen",
            &observed_run,
            &observed,
        ));
    }
    expect(
        "standard error is seen once",
        observed.stderr_text().matches("done").count() == 1,
        &observed.stderr_text(),
    )?;
    let line = summary_of(&observed)?;
    let told: Option<f64> = line
        .split_once("slowdown ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let told = told.ok_or_else(|| Verdict::Wrong(format!("no slowdown in: {line}")))?;
    let totals = totals(scratch, &file)?;
    let kept = totals["slowdown"].as_f64().unwrap_or(0.0);
    expect("observing is slower", kept > 1.0, &totals)?;
    expect(
        "summary and file agree",
        (told - kept).abs() <= 0.06,
        &format!("{told} and {kept}"),
    )
}

fn input_that_cannot_be_read_twice(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("piped.unspool");
    let piped = traced(scratch, &["--measure-slowdown"], &file, &["cat"]);
    let script = format!("echo text | ({})", piped.command_line());
    let refused = natively(scratch, &["bash", "-c", &script]);
    let outcome = run(scratch, &refused)?;
    let told = outcome.stderr_text().contains("help: ");
    match outcome.ending {
        Ending::Exited(125) if told && outcome.stdout.is_empty() => Ok(()),
        _ => Err(wrong("refused with a way out", &refused, &outcome)),
    }
}
