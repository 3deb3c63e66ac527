//! Races that the schedule hides: noise finds them.

use std::path::Path;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Invocation};

use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

/// How often noise is to find the race before the counts are compared.
const FOUND: u32 = 3;
/// It does so in one run of ten on a machine of two processors.
const MOST_RUNS: u32 = 200;

pub(super) fn trials() -> Vec<Trial> {
    vec![trial("races::noise".to_owned(), noise_finds_more)]
}

fn noise_finds_more(scratch: &Scratch) -> Result<(), Verdict> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/races/hidden.c");
    let program = scratch.path().join("hidden");
    let build = natively(scratch, &["gcc", "-g", "-pthread", "-o"]).arguments([&program, &source]);
    run_well(scratch, &build)?;
    let looking = |options: &[&str]| -> Invocation {
        unspool(scratch, &["race"])
            .arguments(options)
            .arguments(["--".as_ref(), program.as_os_str()])
    };
    let (mut quiet, mut noisy) = (0, 0);
    for seed in 1..=MOST_RUNS {
        let number = seed.to_string();
        for (options, found) in [
            (&[][..], &mut quiet),
            (&["--noise", &number][..], &mut noisy),
        ] {
            let command = looking(options);
            let outcome = run(scratch, &command)?;
            match outcome.ending {
                Ending::Exited(0) => {}
                Ending::Exited(66) => *found += 1,
                _ => return Err(wrong("it must end with 0 or 66", &command, &outcome)),
            }
        }
        if noisy == FOUND {
            break;
        }
    }
    match noisy == FOUND && quiet < noisy {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "found {noisy} times with noise and {quiet} times without"
        ))),
    }
}
