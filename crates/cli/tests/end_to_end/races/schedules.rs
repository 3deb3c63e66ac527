//! Noise changes when things happen, and nothing else.

use libtest_mimic::Trial;
use unspool_guests::{Ending, Invocation};

use super::own_source;
use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

const RUNS: u32 = 20;

pub(super) fn trials() -> Vec<Trial> {
    vec![trial("races::noise".to_owned(), noise_changes_no_result)]
}

fn noise_changes_no_result(scratch: &Scratch) -> Result<(), Verdict> {
    let source = own_source("hidden.c");
    let program = scratch.path().join("hidden");
    let build = natively(scratch, &["gcc", "-g", "-pthread", "-o"]).arguments([&program, &source]);
    run_well(scratch, &build)?;
    for seed in 1..=RUNS {
        let number = seed.to_string();
        let command: Invocation =
            unspool(scratch, &["race", "--noise", &number, "--"]).arguments([&program]);
        let outcome = run(scratch, &command)?;
        if !matches!(outcome.ending, Ending::Exited(0 | 66)) {
            return Err(wrong("it must end with 0 or 66", &command, &outcome));
        }
        let verify = unspool(
            scratch,
            &["verify", "--unchecked", "2", "--noise", &number, "--"],
        )
        .arguments([&program]);
        run_well(scratch, &verify)?;
    }
    Ok(())
}
