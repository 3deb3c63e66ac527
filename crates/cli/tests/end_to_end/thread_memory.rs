//! What a thread costs: memory beyond what it takes natively.

use std::ffi::OsString;

use libtest_mimic::Trial;
use unspool_guests::Invocation;

use crate::observer::{Verdict, natively, run_well, translated, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

const THREADS: u64 = 1000;
/// Bytes that a thread may take beyond what it takes natively.
const ALLOWED: u64 = 64 << 10;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("thread_memory::translated".to_owned(), |scratch| {
            within(scratch, translated)
        }),
        trial("thread_memory::traced".to_owned(), |scratch| {
            within(scratch, |scratch, command| {
                unspool(scratch, &["trace", "--discard", "--"]).arguments(command)
            })
        }),
        trial(
            "thread_memory::what_is_used_is_seen".to_owned(),
            what_is_used_is_seen,
        ),
    ]
}

type Way = fn(&Scratch, &[OsString]) -> Invocation;

/// Bytes for each of many threads.
fn a_thread(scratch: &Scratch, way: Way, touched: &str) -> Result<u64, Verdict> {
    let size = |threads: u64| {
        let threads = threads.to_string();
        let command = guest_command("threads/memory_of_many", &[&threads, touched])?;
        let invocation = way(scratch, &command);
        let outcome = run_well(scratch, &invocation)?;
        let said = outcome.stdout_text();
        said.trim()
            .parse::<u64>()
            .map_err(|_| wrong("it must say how much it has", &invocation, &outcome))
    };
    Ok(size(THREADS)?.saturating_sub(size(1)?) / (THREADS - 1))
}

fn within(scratch: &Scratch, way: Way) -> Result<(), Verdict> {
    let native = a_thread(scratch, natively, "0")?;
    let observed = a_thread(scratch, way, "0")?;
    if observed.saturating_sub(native) <= ALLOWED {
        return Ok(());
    }
    Err(Verdict::Wrong(format!(
        "a thread takes {observed} bytes, and {native} natively"
    )))
}

/// The control: threads that use more by themselves.
fn what_is_used_is_seen(scratch: &Scratch) -> Result<(), Verdict> {
    let few = a_thread(scratch, natively, "0")?;
    let many = a_thread(scratch, natively, "73728")?;
    if many.saturating_sub(few) > ALLOWED {
        return Ok(());
    }
    Err(Verdict::Wrong(format!(
        "with 72 KiB more each, threads take {many} bytes instead of {few}"
    )))
}
