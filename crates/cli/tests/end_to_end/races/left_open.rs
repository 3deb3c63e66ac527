//! Where the debugging information leaves open whether plain moves are atomic, races are possible and not
//! certain: with DWARF 4 all that code in C accesses, with DWARF 5 what no variable's type tells of.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{Build, Family, Language, answers, fits, folder, labels, told};
use crate::observer::{Verdict, run, trial, unspool, wrong};
use crate::scratch::Scratch;

/// What debugging information says of a program's atomics, and whether that is all.
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
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end_to_end/races");
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
            source: own.join("published_unnamed.c"),
            flags: "-gdwarf-5",
            list: "races",
            leaves_open: true,
            advises: false,
        },
    ]
}

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in 0..cases().len() {
        for (family, compiler) in [(Family::Gnu, "gcc"), (Family::Llvm, "clang")] {
            for optimised in [false, true] {
                let level = if optimised {
                    "optimised"
                } else {
                    "unoptimised"
                };
                let name = cases()[case].name;
                trials.push(trial(
                    format!("races::left_open::{name}::{compiler}::{level}"),
                    move |scratch| {
                        let build = |racy| Build {
                            racy,
                            optimised,
                            family,
                        };
                        let case = &cases()[case];
                        free(scratch, case, build(false))?;
                        racy(scratch, case, build(true))
                    },
                ));
            }
        }
    }
    trials
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

/// The program, with debugging information as the case has it.
fn built(scratch: &Scratch, case: &Case, build: Build) -> Result<PathBuf, Verdict> {
    build.with_flags(scratch, &case.source, case.flags)
}

/// Nothing is certain where all accesses are atomic that meet.
fn free(scratch: &Scratch, case: &Case, build: Build) -> Result<(), Verdict> {
    let program = built(scratch, case, build)?;
    let (answer, command) = answers(scratch, &program, &[])?;
    let is_open = case.leaves_open || list(&answer, "possible").is_empty();
    match list(&answer, "races").is_empty() && is_open {
        true => Ok(()),
        false => Err(told(format!("there is no race: {answer:#}"), &command)),
    }
}

/// What is a race is told, certain where it can be known.
fn racy(scratch: &Scratch, case: &Case, build: Build) -> Result<(), Verdict> {
    assert_eq!(Language::of(&case.source), Language::C);
    let program = built(scratch, case, build)?;
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
