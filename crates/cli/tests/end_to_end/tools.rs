//! The tools that come with the command: what they say is true, and the program does not
//! notice.

use std::ffi::OsStr;
use std::sync::Arc;

use libtest_mimic::Trial;
use unspool_guests::{Guest, Invocation};

use crate::comparison::compare;
use crate::guest_programs::{self, build};
use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;
use crate::single_steps;

/// Every guest under a tool that inserts something at every instruction, and what the tools
/// tell.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guest in unspool_guests::guests() {
        let guest = Arc::new(guest);
        trials.push(trial(
            format!("guest::tool::{}", guest.name),
            move |scratch| unnoticed(scratch, &guest),
        ));
    }
    trials.push(trial(
        "tools::instruction_count_is_that_of_single_steps".to_owned(),
        counts_like_single_steps,
    ));
    trials
}

/// `unspool tool run TOOL -- COMMAND`.
fn under(scratch: &Scratch, tool: &str, command: &[impl AsRef<OsStr>]) -> Invocation {
    unspool(scratch, &["tool", "run", tool, "--"]).arguments(command)
}

/// A guest under a tool does what it does natively. What the tool says at the end of each
/// process is left out of the comparison.
fn unnoticed(scratch: &Scratch, guest: &Guest) -> Result<(), Verdict> {
    let command = guest_programs::command(guest, "")?;
    let native_run = natively(scratch, &command).limit(guest.limit);
    let native = run(scratch, &native_run)?;
    scratch.start_over()?;
    let observed_run = under(scratch, "instruction-count", &command).limit(guest.limit);
    let mut observed = run(scratch, &observed_run)?;
    let lines = observed.stderr.split_inclusive(|&byte| byte == b'\n');
    observed.stderr = lines
        .filter(|line| !line.ends_with(b" instructions\n"))
        .flatten()
        .copied()
        .collect();
    compare(
        guest.comparison,
        (&native_run, &native),
        (&observed_run, &observed),
    )
}

/// The number of executed instructions is exactly what the kernel's single steps give. The
/// control: with an argument the guest executes more, in both.
fn counts_like_single_steps(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == "instructions/counted")
        .ok_or_else(|| "there is no guest instructions/counted".to_owned())?;
    let program = build(&guest, "")?;
    let mut counts = Vec::new();
    for arguments in [&[][..], &["longer"]] {
        let mut command = vec![program.as_os_str()];
        command.extend(arguments.iter().map(OsStr::new));
        let observed_run = under(scratch, "instruction-count", &command);
        let observed = run_well(scratch, &observed_run)?;
        let steps = single_steps::count(&program, arguments)?;
        if observed.stderr_text() != format!("{steps} instructions\n") {
            return Err(wrong(
                &format!("{steps} single steps"),
                &observed_run,
                &observed,
            ));
        }
        counts.push(steps);
    }
    if counts[0] + 10_000 > counts[1] {
        return Err(Verdict::Wrong(format!("the control fails: {counts:?}")));
    }
    Ok(())
}
