//! Failures of the observer's own are not passed off as the program's.

use libtest_mimic::Trial;
use unspool_guests::{Ending, Guest, catalog::programs_folder};

use crate::guest_programs::build;
use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

/// The exit status for them.
const FAILED: i32 = 125;

/// What is said of children that die amid a change.
const KILLED: &[&str] = &[
    "a child that shared this process's memory was killed while it changed what both share",
    "help: ",
];

/// How they are provoked, in how many runs, and what must be said then.
const CASES: &[(&str, usize, &[&str])] = &[
    // The program leaves no address space to the engine: natively it does not need more.
    ("starved", 1, &["no memory left", "help: "]),
    // A child in its parent's place dies with a lock of the engine's, or, if it comes first, in the
    // allocator.
    ("killed_in_place", 20, KILLED),
    // One that allocates most of the time.
    ("killed_in_allocator", 5, KILLED),
    // The program writes over what enters and leaves translated code.
    (
        "vandal",
        1,
        &[
            "the engine itself failed: signal ",
            " (in translated code), address 0x",
            ", thread 0, program counter 0x",
            "translated block",
            "help: ",
        ],
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for way in [["run", "--"].as_slice(), &["trace", "--discard", "--"]] {
        for &(guest, runs, said) in CASES {
            let name = format!("own_failures::{guest}::{}", way[0]);
            trials.push(trial(name, move |scratch| {
                check(scratch, way, guest, runs, said)
            }));
        }
    }
    trials
}

fn check(
    scratch: &Scratch,
    way: &[&str],
    guest: &str,
    runs: usize,
    wanted: &[&str],
) -> Result<(), Verdict> {
    let source = programs_folder().join(format!("processes/parts/{guest}.c"));
    let text = std::fs::read_to_string(&source)?;
    let guest = Guest::parse(&format!("processes/{guest}"), &source, &text)?;
    let program = build(&guest, "")?;
    run_well(scratch, &natively(scratch, &[&program]))?;
    let observed_run = unspool(scratch, way).arguments([program.as_os_str()]);
    for _ in 0..runs {
        let observed = run(scratch, &observed_run)?;
        let said = observed.stderr_text();
        if observed.ending != Ending::Exited(FAILED) || !wanted.iter().all(|it| said.contains(it)) {
            return Err(wrong(
                "it must say what is wrong and where, and end with a status of its own",
                &observed_run,
                &observed,
            ));
        }
    }
    Ok(())
}
