//! `--max-skew`: a trace can be merged while it is being written, though a thread sleeps.

use libtest_mimic::Trial;

use crate::observer::{Verdict, natively, run, traced, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// Lines of merged text that the reader waits for.
const LINES: u64 = 1_000_000;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (order, skew) in [
        ("line-atomic", "100000"),
        ("ticket", "1"),
        ("timestamp", "1000000"),
    ] {
        trials.push(trial(
            format!("close_clocks::merged_before_the_sleeper_wakes::{order}"),
            move |scratch| {
                let options = ["--order", order, "--max-skew", skew];
                must_be_seen(seen(scratch, &options, &["20"])?)
            },
        ));
    }
    trials.push(trial(
        "close_clocks::merged_while_another_spins".to_owned(),
        |scratch| must_be_seen(seen(scratch, &["--max-skew", "100000"], &["20", "spin"])?),
    ));
    trials.push(trial(
        "close_clocks::without_a_bound_is_told_apart".to_owned(),
        |scratch| match seen(scratch, &[], &["2"])? {
            false => Ok(()),
            true => Err(Verdict::Wrong("merged without a bound".to_owned())),
        },
    ));
    trials
}

fn must_be_seen(seen: bool) -> Result<(), Verdict> {
    match seen {
        true => Ok(()),
        false => Err(Verdict::Wrong(
            "the merge waited for the other thread".to_owned(),
        )),
    }
}

/// Whether the merge of a trace shows the worker's accesses while the worker waits for that.
fn seen(scratch: &Scratch, options: &[&str], arguments: &[&str]) -> Result<bool, Verdict> {
    let command = guest_command("order/sleeper", &[&["600"], arguments].concat())?;
    let fifo = scratch.work().join("fifo");
    let mut options = options.to_vec();
    options.extend(["--buffer", "4096"]);
    let observed = traced(scratch, &options, &fifo, &command);
    let merge = unspool(scratch, &["merge", "fifo"]);
    // What follows the lines is read too, so that the writer is not cut off.
    let script = format!(
        "mkfifo fifo; (({}) | (head -n {LINES} | tail -n 1; touch seen; cat > /dev/null)) > last & \
         {}; wait",
        merge.command_line(),
        observed.command_line()
    );
    let both = natively(scratch, &["bash", "-euc", &script]);
    let outcome = run(scratch, &both)?;
    let said = outcome.stdout_text();
    match said.lines().next() {
        Some("seen") => Ok(true),
        Some("not seen") => Ok(false),
        _ => Err(wrong("seen or not seen", &both, &outcome)),
    }
}
