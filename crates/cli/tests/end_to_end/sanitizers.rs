//! Programs built with sanitizers, whose runtimes want memory at fixed addresses, while their
//! accesses are recorded.

use libtest_mimic::Trial;
use unspool_guests::{Comparison, Ending};

use crate::comparison::compare;
use crate::observer::{Verdict, natively, run, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

const GUESTS: [&str; 2] = ["sanitizers/address", "sanitizers/thread"];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guest in GUESTS {
        for order in ["ticket", "timestamp"] {
            trials.push(trial(format!("{guest}::{order}"), move |scratch| {
                records(scratch, guest, order)
            }));
        }
        trials.push(trial(
            format!("{guest}::line_atomic_names_the_way_out"),
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
