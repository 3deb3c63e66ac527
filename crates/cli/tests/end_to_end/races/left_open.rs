//! Where the debugging information leaves open whether plain moves are atomic, races are possible and not
//! certain: with DWARF 4 all that code in C accesses, with DWARF 5 what no variable's type tells of.

use std::path::PathBuf;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{Build, answers, fits, folder, free_builds, labels, own_source, told};
use crate::observer::{Verdict, run, trial, unspool, wrong};
use crate::scratch::Scratch;

/// What debugging information says of a program's atomics, and whether that is all.
#[derive(Clone)]
struct Case {
    name: &'static str,
    source: PathBuf,
    flags: &'static str,
    /// Where the racy one's races are to be found.
    list: &'static str,
    /// Whether accesses that are atomic may seem possible races.
    leaves_open: bool,
    /// Whether another version of the debugging information is said to tell more.
    advises: bool,
}

fn cases() -> [Case; 3] {
    [
        Case {
            name: "dwarf_4",
            source: folder().join("published.c"),
            flags: "-gdwarf-4",
            list: "possible",
            leaves_open: true,
            advises: true,
        },
        // The advice is taken.
        Case {
            name: "dwarf_5",
            source: folder().join("published.c"),
            flags: "-gdwarf-5",
            list: "races",
            leaves_open: false,
            advises: false,
        },
        Case {
            name: "heap",
            source: own_source("published_unnamed.c"),
            flags: "-gdwarf-5",
            list: "races",
            leaves_open: true,
            advises: false,
        },
    ]
}

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in cases() {
        for build in free_builds(&case.source) {
            let name = format!("races::left_open::{}::{}", case.name, build.compiled());
            let case = case.clone();
            trials.push(trial(name, move |scratch| {
                free(scratch, &case, build)?;
                racy(
                    scratch,
                    &case,
                    Build {
                        racy: true,
                        ..build
                    },
                )
            }));
        }
    }
    trials
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

/// Nothing is certain where all accesses are atomic that meet.
fn free(scratch: &Scratch, case: &Case, build: Build) -> Result<(), Verdict> {
    let program = build.with_flags(scratch, &case.source, case.flags)?;
    let (answer, command) = answers(scratch, &program, &[])?;
    let is_open = case.leaves_open || list(&answer, "possible").is_empty();
    match list(&answer, "races").is_empty() && is_open {
        true => Ok(()),
        false => Err(told(format!("there is no race: {answer:#}"), &command)),
    }
}

/// What is a race is told, certain where it can be known.
fn racy(scratch: &Scratch, case: &Case, build: Build) -> Result<(), Verdict> {
    let program = build.with_flags(scratch, &case.source, case.flags)?;
    let (answer, command) = answers(scratch, &program, &[])?;
    for (name, lines) in labels(&case.source)? {
        let mut found = list(&answer, case.list).iter();
        if !found.any(|race| fits(race, &name, &lines, &case.source)) {
            let text = format!("{name} must be among {}: {answer:#}", case.list);
            return Err(told(text, &command));
        }
    }
    let text = unspool(scratch, &["race", "--"]).arguments([&program]);
    let outcome = run(scratch, &text)?;
    let advises = outcome.stderr_text().contains("-gdwarf-5");
    match advises == case.advises && matches!(outcome.ending, Ending::Exited(0 | 66)) {
        true => Ok(()),
        false => Err(wrong("advice only where it helps", &text, &outcome)),
    }
}
