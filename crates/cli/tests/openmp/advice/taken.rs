//! Each kind of advice that promises to save time is taken: the time falls by what was promised,
//! within 15 %, and the advice is not given again.

use libtest_mimic::Trial;
use serde_json::Value;

use super::{between, sentences};
use crate::attempts::{Plan, attempt};
use crate::command::{Compiler, Verdict, build, check, json_and_talk, programs, trial};

/// How far what is saved may be from what was promised, as a part of that.
const OFF: f64 = 0.15;

/// A loss, what the sentence about it has in it, and how long it takes: as it is, of both threads, and
/// what is saved. Seconds.
struct Loss {
    name: &'static str,
    said: &'static str,
    elapsed: f64,
    work: f64,
    saved: f64,
}

const LOSSES: &[Loss] = &[
    Loss {
        name: "loop",
        said: "is imbalanced",
        elapsed: 0.3,
        work: 0.4,
        saved: 0.1,
    },
    Loss {
        name: "heavy_iteration",
        said: "starting with those",
        elapsed: 0.3,
        work: 0.4,
        saved: 0.1,
    },
    Loss {
        name: "sections",
        said: "are imbalanced",
        elapsed: 0.2,
        work: 0.3,
        saved: 0.05,
    },
    Loss {
        name: "tasks",
        said: "creating them first",
        elapsed: 0.15,
        work: 0.2,
        saved: 0.05,
    },
    Loss {
        name: "chain",
        said: "depend on each other",
        elapsed: 0.2,
        work: 0.2,
        saved: 0.1,
    },
    Loss {
        name: "serial",
        said: "made parallel",
        elapsed: 0.3,
        work: 0.4,
        saved: 0.1,
    },
    Loss {
        name: "region_of_one",
        said: "one thread alone",
        elapsed: 0.3,
        work: 0.4,
        saved: 0.1,
    },
    Loss {
        name: "duplicated",
        said: "do the same work",
        elapsed: 0.2,
        work: 0.4,
        saved: 0.1,
    },
];

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        for loss in LOSSES {
            // LLVM's runtime begins with the task that was created last.
            if compiler == Compiler::Clang && loss.name == "tasks" {
                continue;
            }
            let name = format!("taken::{}::{}", loss.name, compiler.command());
            trials.push(trial(name, move || taken(compiler, loss)));
        }
        let name = format!("taken::chains::{}", compiler.command());
        trials.push(trial(name, move || chains(compiler)));
    }
    trials
}

fn observed(compiler: Compiler, words: &[&str]) -> Result<(Value, String), Verdict> {
    let program = build(&programs().join("advised/taken.c"), compiler, &[])?;
    let program = program.to_string_lossy().into_owned();
    let command: Vec<&str> = [program.as_str()].iter().chain(words).copied().collect();
    json_and_talk(&command)
}

/// The first sentence of a report that says this.
fn sentence<'report>(report: &'report Value, said: &str) -> Option<&'report str> {
    sentences(report).find(|sentence| sentence.contains(said))
}

/// How many seconds a sentence promises to save.
fn promise(sentence: &str) -> Option<f64> {
    let words = ["save up to ", "save about ", "take up to "];
    let found = words
        .iter()
        .find_map(|words| between(sentence, words, " s"));
    found?.parse().ok()
}

fn taken(compiler: Compiler, loss: &Loss) -> Result<(), Verdict> {
    let plan = Plan {
        elapsed: loss.elapsed,
        work: loss.work,
        threads: 2.0,
    };
    let both = || {
        let (before, talk) = observed(compiler, &[loss.name])?;
        let (after, more) = observed(compiler, &[loss.name, "taken"])?;
        Ok(((before, after), talk + &more))
    };
    attempt(plan, both, |(before, after), slack| {
        let time = |report: &Value| report["execution_time"].as_f64().unwrap_or(f64::NAN);
        let saved = time(before) - time(after);
        let told = sentence(before, loss.said);
        let promised = told.and_then(promise).unwrap_or(f64::NAN);
        let near = |found: f64, wanted: f64| (found - wanted).abs() <= OFF * wanted + slack;
        check(near(promised, loss.saved) && near(saved, promised), || {
            format!(
                "{promised} s are promised, {saved:.3} s are saved: {:#}",
                before["diagnosis"]
            )
        })?;
        let again = sentence(after, loss.said).and_then(promise).unwrap_or(0.0);
        check(again <= OFF * promised + slack, || {
            format!("with the advice taken: {:#}", after["diagnosis"])
        })
    })
}

/// How long the longest chain is said to be, of which tasks.
fn chain(report: &Value) -> Option<(f64, f64)> {
    let (_, rest) = sentence(report, "depend on each other")?.split_once("chain takes ")?;
    let (chain, rest) = rest.split_once(" s of the ")?;
    let (all, _) = rest.split_once(" s of all")?;
    Some((chain.parse().ok()?, all.parse().ok()?))
}

/// Tasks that read do not depend on each other, nor those of different tasks, nor those that name
/// different places.
fn chains(compiler: Compiler) -> Result<(), Verdict> {
    let cases: [(&[&str], f64, f64, Option<f64>); 4] = [
        (&["chain"], 0.2, 0.2, Some(0.2)),
        (&["chain", "taken"], 0.1, 0.2, None),
        (&["readers"], 0.12, 0.16, Some(0.12)),
        (&["creators"], 0.22, 0.32, None),
    ];
    for (words, elapsed, work, wanted) in cases {
        let plan = Plan {
            elapsed,
            work,
            threads: 2.0,
        };
        attempt(
            plan,
            || observed(compiler, words),
            |report, slack| {
                let near =
                    |found: f64, wanted: f64| (found - wanted).abs() <= 0.05 * wanted + slack;
                let is_right = match (chain(report), wanted) {
                    (None, None) => true,
                    (Some((chain, all)), Some(wanted)) => near(chain, wanted) && near(all, work),
                    // A disturbed task can be a chain of its own.
                    (Some(_), None) => slack > 0.0,
                    (None, Some(_)) => false,
                };
                check(is_right, || format!("{words:?}: {:#}", report["diagnosis"]))
            },
        )?;
    }
    Ok(())
}
