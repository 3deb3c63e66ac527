//! What threads have recorded is in the file while they sleep, also if they are killed then.

use std::path::Path;

use libtest_mimic::Trial;

use crate::observer::{COMMAND, Verdict, natively, run_well, trial, unspool};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// What the guest's three threads write before they fall asleep.
const WRITES: u64 = 3 * 20_000;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for order in ["none", "ticket", "line-atomic", "timestamp"] {
        trials.push(trial(format!("asleep::killed::{order}"), move |scratch| {
            let left = killed_asleep(scratch, order, Keeper::Works)?;
            must("all writes are in the file", left.accesses >= WRITES, &left)?;
            must("three threads are", left.threads == 3, &left)
        }));
    }
    // Without whoever writes for those that sleep, nothing of it is there.
    trials.push(trial("asleep::control".to_owned(), |scratch| {
        let left = killed_asleep(scratch, "line-atomic", Keeper::Killed)?;
        must("writes are missing", left.accesses < WRITES, &left)
    }));
    trials.push(trial("asleep::keeper_killed".to_owned(), keeper_killed));
    trials.push(trial("asleep::values".to_owned(), values));
    trials.push(trial("asleep::through_a_pipe".to_owned(), through_a_pipe));
    trials
}

/// What becomes of the process that writes for those that sleep, before anybody does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeper {
    Works,
    Killed,
}

/// What `info` says of a file.
#[derive(Debug)]
struct Left {
    accesses: u64,
    threads: usize,
}

fn must(what: &str, holds: bool, left: &Left) -> Result<(), Verdict> {
    match holds {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{what}, but: {left:?}"))),
    }
}

/// The beginning of a script: the guest is traced, at its first read, and `$pid` is its process.
fn begin(file: &Path, options: &str, seconds: &str) -> Result<String, Verdict> {
    let guest = guest_command("threads/falls_asleep", &[])?;
    Ok(format!(
        "mkfifo go; '{}' trace {options} -o '{}' -- '{}' {seconds} wait < go > said & pid=$!; \
         exec 5> go; until cat /proc/$pid/task/*/children > keeper 2> /dev/null; \
         test -s keeper; do sleep 0.05; done; ",
        COMMAND.display(),
        file.display(),
        guest[0].display(),
    ))
}

const GO: &str = "echo >&5; until grep -q asleep said; do sleep 0.1; done; ";

/// Kills the guest when its records are in the file, or have had two seconds to get there.
fn killed_asleep(scratch: &Scratch, order: &str, keeper: Keeper) -> Result<Left, Verdict> {
    let file = scratch.path().join("asleep.unspool");
    let script = begin(&file, &format!("--order {order}"), "1000")?;
    let script = match keeper {
        Keeper::Killed => format!("{script} kill -9 $(cat keeper); {GO} sleep 2; "),
        Keeper::Works => format!(
            "{script} {GO} for look in $(seq 200); do \
             '{}' info '{}' 2> /dev/null | tr -d , > info || true; \
             test $(sed -n 's/^accesses *//p' info) -lt {WRITES} || break; sleep 0.2; done; ",
            COMMAND.display(),
            file.display()
        ),
    };
    let script = format!("{script} kill -9 $pid; wait $pid || test $? = 137");
    run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
    left_in(scratch, &file)
}

fn left_in(scratch: &Scratch, file: &Path) -> Result<Left, Verdict> {
    let arguments = ["info".as_ref(), "--json".as_ref(), file.as_os_str()];
    let information = crate::observer::run(scratch, &unspool(scratch, &arguments))?;
    let text = information.stdout_text();
    let parsed: serde_json::Value =
        serde_json::from_str(&text).map_err(|problem| Verdict::Wrong(problem.to_string()))?;
    Ok(Left {
        accesses: parsed["totals"]["accesses"].as_u64().unwrap_or(0),
        threads: parsed["threads"].as_array().map_or(0, Vec::len),
    })
}

/// The program runs on, and what it records is whole in the end.
fn keeper_killed(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("asleep.unspool");
    let script = begin(&file, "--verify", "1")?;
    let script = format!("{script} kill -9 $(cat keeper); {GO} wait $pid");
    run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
    check(scratch, &file)?;
    let left = left_in(scratch, &file)?;
    must("all writes are there", left.accesses >= WRITES, &left)
}

/// The order is proven also where records were written by another one than their thread.
fn values(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("asleep.unspool");
    let script = begin(&file, "--verify", "1")?;
    run_well(
        scratch,
        &natively(
            scratch,
            &["bash", "-euc", &format!("{script} {GO} wait $pid")],
        ),
    )?;
    check(scratch, &file)
}

fn check(scratch: &Scratch, file: &Path) -> Result<(), Verdict> {
    let arguments = [
        "verify".as_ref(),
        "--unchecked".as_ref(),
        "5".as_ref(),
        file.as_os_str(),
    ];
    run_well(scratch, &unspool(scratch, &arguments)).map(|_| ())
}

/// A reader of a stream sees what a thread wrote that sleeps now.
fn through_a_pipe(scratch: &Scratch) -> Result<(), Verdict> {
    let command = COMMAND.display();
    let script = format!(
        "mkfifo stream; \
         '{command}' trace -o stream -- bash -c 'echo 1; read -r line' < <(sleep 1000) & pid=$!; \
         '{command}' merge stream > merged & reader=$!; \
         for look in $(seq 300); do \
         test $(wc -l < merged) -lt 100000 || break; sleep 0.2; done; \
         wc -l < merged; kill -9 $pid; wait $pid || test $? = 137; wait $reader || true"
    );
    let run = natively(scratch, &["bash", "-euc", &script]);
    let outcome = run_well(scratch, &run)?;
    let text = outcome.stdout_text();
    let lines = text
        .lines()
        .find_map(|line| line.parse::<u64>().ok().filter(|&count| count > 1));
    match lines {
        Some(100_000..) => Ok(()),
        lines => Err(Verdict::Wrong(format!(
            "{lines:?} lines were merged: {text}"
        ))),
    }
}
