//! Guests recorded in the orders that their tests do not use: programs built with sanitizers,
//! whose runtimes want memory at fixed addresses, and those that disturb the recording itself.

use libtest_mimic::Trial;
use unspool_guests::{Comparison, Ending};

use crate::comparison::compare;
use crate::observer::{Verdict, natively, run, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

const SANITIZED: [&str; 4] = [
    "sanitizers/address",
    "sanitizers/leaks",
    "sanitizers/memory",
    "sanitizers/thread",
];
const DISTURBING: [&str; 3] = [
    "threads/faulting_atomics",
    "signals/registers_kept",
    "memory/moved_code",
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guest in SANITIZED.into_iter().chain(DISTURBING) {
        for order in ["ticket", "timestamp", "none"] {
            trials.push(trial(format!("orders::{guest}::{order}"), move |scratch| {
                records(scratch, guest, order)
            }));
        }
    }
    for guest in SANITIZED {
        trials.push(trial(
            format!("orders::{guest}::line_atomic_names_the_way_out"),
            move |scratch| names_the_way_out(scratch, guest),
        ));
    }
    trials
}

fn observed(
    scratch: &Scratch,
    order: &str,
    command: &[std::ffi::OsString],
) -> unspool_guests::Invocation {
    unspool(scratch, &["trace", "--discard", "--order", order, "--"]).arguments(command)
}

fn records(scratch: &Scratch, guest: &str, order: &str) -> Result<(), Verdict> {
    let command = guest_command(guest, &[])?;
    let native_run = natively(scratch, &command);
    let native = run(scratch, &native_run)?;
    let observed_run = observed(scratch, order, &command);
    let observed = run(scratch, &observed_run)?;
    compare(
        Comparison::Status,
        (&native_run, &native),
        (&observed_run, &observed),
    )
}

/// What cannot be had together is refused, with the orders that can.
fn names_the_way_out(scratch: &Scratch, guest: &str) -> Result<(), Verdict> {
    let command = guest_command(guest, &[])?;
    let observed_run = observed(scratch, "line-atomic", &command);
    let observed = run(scratch, &observed_run)?;
    if observed.ending != Ending::Exited(0) && observed.stderr_text().contains("--order ticket") {
        return Ok(());
    }
    Err(wrong(
        "this cannot run, and must say what can",
        &observed_run,
        &observed,
    ))
}
