//! Failures of the observer's own are not passed off as the program's.

use libtest_mimic::Trial;
use unspool_guests::{Ending, Guest, catalog::programs_folder};

use crate::guest_programs::build;
use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

/// The exit status for them.
const FAILED: i32 = 125;

pub(crate) fn trials() -> Vec<Trial> {
    [["run", "--"].as_slice(), &["trace", "--discard", "--"]]
        .into_iter()
        .map(|way| {
            let name = format!("own_failures::no_memory_left::{}", way[0]);
            trial(name, |scratch| no_memory_left(scratch, way))
        })
        .collect()
}

/// The program leaves no address space to the engine: natively it does not need more.
fn no_memory_left(scratch: &Scratch, way: &[&str]) -> Result<(), Verdict> {
    let source = programs_folder().join("processes/parts/starved.c");
    let text = std::fs::read_to_string(&source)?;
    let guest = Guest::parse("processes/starved", &source, &text)?;
    let program = build(&guest, "")?;
    run_well(scratch, &natively(scratch, &[&program]))?;
    let observed_run = unspool(scratch, way).arguments([program.as_os_str()]);
    let observed = run(scratch, &observed_run)?;
    let said = observed.stderr_text();
    if observed.ending == Ending::Exited(FAILED)
        && said.contains("no memory left")
        && said.contains("help: ")
    {
        return Ok(());
    }
    Err(wrong(
        "it must say that memory is missing, and end with a status of its own",
        &observed_run,
        &observed,
    ))
}
