//! Every guest, translated and traced: it must do what it does natively.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use libtest_mimic::Trial;
use unspool_guests::{BuildError, Ending, Guest, Invocation, Outcome};

use crate::comparison::{compare, runs_alike};
use crate::observer::{
    Verdict, WORKSHOP, natively, require, run, run_well, traced, translated,
    translated_persistently, trial, verified, wrong,
};
use crate::scratch::Scratch;

/// One test for each guest, each of its builds, and each way of observing it.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guest in unspool_guests::guests() {
        let guest = Arc::new(guest);
        let builds = std::iter::once(String::new()).chain(guest.variants.clone());
        for variant in builds {
            let ending = if variant.is_empty() {
                String::new()
            } else {
                format!("::{variant}")
            };
            let (observed, build) = (Arc::clone(&guest), variant.clone());
            trials.push(trial(
                format!("guest::run::{}{ending}", guest.name),
                move |scratch| translate(scratch, &observed, &build),
            ));
            if guest.traced {
                let observed = Arc::clone(&guest);
                trials.push(trial(
                    format!("guest::trace::{}{ending}", guest.name),
                    move |scratch| trace(scratch, &observed, &variant),
                ));
            }
        }
    }
    for example in ["parallel_sums", "tokio_runtime"] {
        for tracing in [false, true] {
            let way = if tracing { "trace" } else { "run" };
            trials.push(trial(
                format!("guest::{way}::rust/{example}"),
                move |scratch| observe_example(scratch, example, tracing),
            ));
        }
    }
    trials
}

/// Runs a guest natively and observed, by who says something itself on standard error. `own`
/// leaves that out of what is compared, or says why nothing can be.
pub(crate) fn beside_native(
    scratch: &Scratch,
    guest: &Guest,
    observe: impl FnOnce(&[OsString]) -> Invocation,
    own: impl FnOnce(&mut Outcome) -> Result<(), Verdict>,
) -> Result<(), Verdict> {
    let command = command(guest, "")?;
    let native_run = natively(scratch, &command).limit(guest.limit);
    let native = run(scratch, &native_run)?;
    scratch.start_over()?;
    let observed_run = observe(&command).limit(guest.limit);
    let mut observed = run(scratch, &observed_run)?;
    own(&mut observed)?;
    compare(
        guest.comparison,
        (&native_run, &native),
        (&observed_run, &observed),
    )
}

/// Takes lines out of what was said on standard error.
pub(crate) fn leave_out(outcome: &mut Outcome, is_own: impl Fn(&[u8]) -> bool) {
    let lines = outcome.stderr.split_inclusive(|&byte| byte == b'\n');
    let others = lines.filter(|line| !is_own(line));
    outcome.stderr = others.flatten().copied().collect();
}

/// The guest's program, or why there is none.
pub(crate) fn build(guest: &Guest, variant: &str) -> Result<PathBuf, Verdict> {
    require(&guest.requirements)?;
    WORKSHOP.build(guest, variant).map_err(cannot_build)
}

fn cannot_build(problem: BuildError) -> Verdict {
    match problem {
        BuildError::NoCompiler(_) => Verdict::CannotTell(problem.to_string()),
        BuildError::Refused { .. } | BuildError::Folder { .. } => {
            Verdict::Wrong(problem.to_string())
        }
    }
}

/// The command that runs the guest.
pub(crate) fn command(guest: &Guest, variant: &str) -> Result<Vec<OsString>, Verdict> {
    let mut command = vec![build(guest, variant)?.into_os_string()];
    command.extend(guest.arguments.iter().map(OsString::from));
    Ok(command)
}

fn translate(scratch: &Scratch, guest: &Guest, variant: &str) -> Result<(), Verdict> {
    let command = command(guest, variant)?;
    let native_run = natively(scratch, &command).limit(guest.limit);
    let native = run(scratch, &native_run)?;
    if native.ending != guest.ending {
        return Err(wrong(
            &format!("natively: {:?}", guest.ending),
            &native_run,
            &native,
        ));
    }
    // As it is, then keeping its translations, then with those that were kept.
    for observed_run in [
        translated(scratch, &command),
        translated_persistently(scratch, &command),
        translated_persistently(scratch, &command),
    ] {
        scratch.start_over()?;
        let observed_run = observed_run.limit(guest.limit);
        let observed = run(scratch, &observed_run)?;
        compare(
            guest.comparison,
            (&native_run, &native),
            (&observed_run, &observed),
        )?;
    }
    Ok(())
}

/// A guest with crates of others.
fn observe_example(scratch: &Scratch, example: &str, tracing: bool) -> Result<(), Verdict> {
    let program = WORKSHOP.build_example(example).map_err(cannot_build)?;
    let native_run = natively(scratch, &[&program]);
    let file = scratch.path().join("trace.unspool");
    let options = ["--order", "line-atomic", "--verify"];
    let observed_run = if tracing {
        traced(scratch, &options, &file, &[&program])
    } else {
        translated(scratch, &[&program])
    };
    runs_alike(scratch, &native_run, &observed_run)?;
    if tracing {
        let verify = verified(scratch, &file);
        run_well(scratch, &verify)?;
    }
    Ok(())
}

/// Traces the guest with all values; every value that it read must be explained by the
/// trace's order.
fn trace(scratch: &Scratch, guest: &Guest, variant: &str) -> Result<(), Verdict> {
    let command = command(guest, variant)?;
    let native_run = natively(scratch, &command).limit(guest.limit);
    let native = run(scratch, &native_run)?;
    scratch.start_over()?;
    let file = scratch.path().join("trace.unspool");
    let options = ["--order", "line-atomic", "--verify"];
    let observed_run = traced(scratch, &options, &file, &command).limit(guest.limit);
    let observed = run(scratch, &observed_run)?;
    compare(
        guest.comparison,
        (&native_run, &native),
        (&observed_run, &observed),
    )?;
    if guest.ending == Ending::Signalled(9) {
        // What a killed process leaves is tested where files are; here the run counts.
        return Ok(());
    }
    run_well(scratch, &verified(scratch, &file))?;
    Ok(())
}
