//! Commands that read a trace while it is written: what they say comes as it happens, and is in the
//! end what they say of the file.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Outcome};

use crate::observer::{COMMAND, Verdict, natively, run, trial, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// The commands, how the same is said of a file that is whole, and how many lines differ at the
/// beginning: what a file has in its tables is not known at the start of a stream.
const COMMANDS: &[(&str, &str, &str, usize)] = &[
    ("show", "show", "show", 0),
    ("info", "info --progress always", "info", 0),
    ("merge", "merge --keep-time", "merge --keep-time", 0),
    (
        "tsv",
        "export --format tsv",
        "export --format tsv --ordered",
        0,
    ),
    (
        "csv",
        "export --format csv",
        "export --format csv --ordered",
        0,
    ),
    (
        "json",
        "export --format json",
        "export --format json --ordered",
        1,
    ),
];

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for &(name, follow, whole, differ) in COMMANDS {
        trials.push(trial(format!("live::following::{name}"), move |scratch| {
            let end = "kill -0 $pid || exit 3; wait $pid; wait $reader";
            followed(scratch, "6", (follow, whole, differ), end, 0)
        }));
        trials.push(trial(
            format!("live::following::{name}::killed"),
            move |scratch| {
                let end = "kill -9 $pid; wait $reader";
                followed(scratch, "1000", (follow, whole, differ), end, 2)
            },
        ));
    }
    trials.push(trial(
        "live::following::parquet_is_refused".to_owned(),
        |scratch| {
            let options = ["export", "--format", "parquet", "--follow", "some.unspool"];
            let observed = crate::observer::unspool(scratch, &options);
            let outcome = run(scratch, &observed)?;
            let is_refused = outcome.ending == Ending::Exited(125)
                && outcome.stderr_text().contains("help: no reader can use");
            is_refused
                .then_some(())
                .ok_or_else(|| wrong("it is refused", &observed, &outcome))
        },
    ));
    trials
}

/// Traces a guest whose three threads write and fall asleep, and follows it with a command, which
/// must say something before the guest's end, and in the end the same as of the file.
fn followed(
    scratch: &Scratch,
    seconds: &str,
    (follow, whole, differ): (&str, &str, usize),
    end: &str,
    status: i32,
) -> Result<(), Verdict> {
    let guest = guest_command("threads/falls_asleep", &[])?;
    let (command, guest) = (COMMAND.display(), guest[0].display());
    let (shown, lines) = match follow.starts_with("info") {
        true => ("said", 1),
        false => ("followed", 1000),
    };
    let script = format!(
        ": > followed; : > said; \
         '{command}' trace -o running -- '{guest}' {seconds} > /dev/null 2>&1 & pid=$!; \
         until test -s running; do sleep 0.05; done; \
         '{command}' {follow} --follow running > followed 2> said & reader=$!; \
         for look in $(seq 400); do test $(wc -l < {shown}) -lt {lines} || break; sleep 0.1; done; \
         test $(wc -l < {shown}) -ge {lines} || exit 4; cp {shown} early; sleep 1; \
         {end}; status=$?; cat said >&2; \
         '{command}' {whole} running > whole; exit $status"
    );
    let following = natively(scratch, &["bash", "-uc", &script]).limit(Duration::from_secs(240));
    let outcome = run(scratch, &following)?;
    if outcome.ending != Ending::Exited(status) {
        return Err(wrong(
            &format!("it ends with {status}"),
            &following,
            &outcome,
        ));
    }
    same(scratch.work(), differ, (&following, &outcome))
}

fn same(
    folder: &Path,
    differ: usize,
    (invocation, outcome): (&unspool_guests::Invocation, &Outcome),
) -> Result<(), Verdict> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    let (followed, whole, early) = (read("followed")?, read("whole")?, read("early")?);
    let lines = |text: &str| {
        text.lines()
            .skip(differ)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    if lines(&followed) != lines(&whole) || whole.lines().count() < 10 {
        return Err(wrong(
            "what is followed is what is there",
            invocation,
            outcome,
        ));
    }
    // The control: it was not all there from the start. What is known of a killed one may have been.
    match early.len() < followed.len() || outcome.ending != Ending::Exited(0) {
        true => Ok(()),
        false => Err(wrong("it grows", invocation, outcome)),
    }
}
