//! Programs that every machine has, natively and observed: the same output, the same end.

mod build_tools;
mod compressors;
mod interpreters;
mod languages;
mod sandboxes;
mod text_tools;

use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Comparison, Requirement};

use crate::comparison::compare;
use crate::observer::{Verdict, natively, run, run_well, traced, translated, trial};
use crate::scratch::Scratch;

/// One real program at work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Its name among the tests.
    pub(crate) name: &'static str,
    /// The programs that it runs, and files by their whole paths.
    pub(crate) needs: &'static [&'static str],
    /// A shell script that makes what it works on; runs natively, before each run.
    pub(crate) prepare: &'static str,
    /// What is observed: a program and its arguments.
    pub(crate) command: &'static [&'static str],
    /// A shell script that shows what it left; runs natively, after each run.
    pub(crate) inspect: &'static str,
    /// Whether it is traced too, and not only translated.
    pub(crate) traced: bool,
}

/// A case with nothing to prepare or inspect, to be completed with `..PLAIN`.
pub(crate) const PLAIN: Case = Case {
    name: "",
    needs: &[],
    prepare: "",
    command: &[],
    inspect: "",
    traced: false,
};

/// Real programs are larger than guests.
const LIMIT: Duration = Duration::from_secs(150);

pub(crate) fn trials() -> Vec<Trial> {
    let tables = [
        text_tools::CASES,
        compressors::CASES,
        interpreters::CASES,
        languages::CASES,
        build_tools::CASES,
        sandboxes::CASES,
    ];
    let mut trials = Vec::new();
    for &case in tables.into_iter().flatten() {
        trials.push(trial(
            format!("program::run::{}", case.name),
            move |scratch| check(scratch, case, None),
        ));
        if case.traced {
            trials.push(trial(
                format!("program::trace::{}", case.name),
                move |scratch| check(scratch, case, Some("line-atomic")),
            ));
        }
    }
    trials
}

fn check(scratch: &Scratch, case: Case, order: Option<&str>) -> Result<(), Verdict> {
    for program in case.needs.iter().chain(&case.command[..1]) {
        let missing = if program.starts_with('/') {
            Requirement::File(program.into())
        } else {
            Requirement::Program((*program).to_owned())
        };
        if !program.starts_with('.') && missing.reason_missing().is_some() {
            return Err(Verdict::CannotTell(
                missing.reason_missing().unwrap_or_default(),
            ));
        }
    }
    let script = |text: &str| natively(scratch, &["/bin/sh", "-euc", text]).limit(LIMIT);

    run_well(scratch, &script(case.prepare))?;
    let native_run = natively(scratch, case.command).limit(LIMIT);
    let native = run(scratch, &native_run)?;
    let native_left = run_well(scratch, &script(case.inspect))?;

    scratch.start_over()?;
    run_well(scratch, &script(case.prepare))?;
    let file = scratch.path().join("trace.unspool");
    let observed_run = match order {
        None => translated(scratch, case.command),
        Some(order) => traced(scratch, &["--order", order], &file, case.command),
    }
    .limit(LIMIT);
    let observed = run(scratch, &observed_run)?;
    compare(
        Comparison::Output,
        (&native_run, &native),
        (&observed_run, &observed),
    )?;
    let observed_left = run_well(scratch, &script(case.inspect))?;
    compare(
        Comparison::Output,
        (&native_run, &native_left),
        (&observed_run, &observed_left),
    )
}
