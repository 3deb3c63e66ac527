//! Comparison of runs: with other thread counts, and of reports in every grouping.

use std::path::Path;
use std::sync::PoisonError;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::attempts::{Plan, attempt, attempt_without_plan};
use crate::command::{
    Compiler, Verdict, build, check, json, json_and_talk, openmp, programs, trial,
};
use crate::processors::PROCESSORS;

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let name = |test: &str| format!("compared::{test}::{}", compiler.command());
        trials.push(trial(name("thread_counts"), move || {
            thread_counts(compiler)
        }));
        trials.push(trial(name("groupings"), move || groupings(compiler)));
        trials.push(trial(name("growth"), move || growth(compiler)));
    }
    trials
}

fn program(compiler: Compiler) -> Result<String, Verdict> {
    let source = programs().join("compared/scales.c");
    build(&source, compiler, &[]).map(|path| path.to_string_lossy().into_owned())
}

/// Three threads are nearly three times as fast as one, but now they wait for the critical;
/// the other way round it is slower, and nothing is worse.
fn thread_counts(compiler: Compiler) -> Result<(), Verdict> {
    let program = program(compiler)?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    let file = folder.join(format!("one-thread-{}.recording", compiler.command()));
    let file = file.to_string_lossy().into_owned();
    let keep = ["--output", &file, "env", "OMP_NUM_THREADS=1", &program];
    let alone = Plan {
        elapsed: 12.0 * 0.06,
        work: 12.0 * 0.06,
        threads: 1.0,
    };
    let near = |report: &Value, key: &str, wanted: f64, slack: f64| {
        let found = report[key].as_f64().unwrap_or(f64::NAN);
        check((found - wanted).abs() <= 0.05 * wanted + slack, || {
            format!("{key}: {found}, not {wanted}\n{report}")
        })
    };
    attempt(
        alone,
        || json_and_talk(&keep),
        |report, slack| near(report, "execution_time", 0.72, slack),
    )?;
    // The first turns in the critical are one after the other: 20 ms longer than a third.
    let together = Plan {
        elapsed: 0.26,
        threads: 3.0,
        ..alone
    };
    let compare = ["--compare", &file, "env", "OMP_NUM_THREADS=3", &program];
    attempt(
        together,
        || json_and_talk(&compare),
        |report, slack| {
            near(report, "speed_up", 0.72 / 0.26, slack * 10.0)?;
            near(
                report,
                "scaling_efficiency",
                0.72 / 0.26 / 3.0,
                slack * 10.0,
            )?;
            let counts = (
                report["before"]["processors"].as_u64(),
                report["after"]["processors"].as_u64(),
            );
            check(counts == (Some(1), Some(3)), || format!("{counts:?}"))?;
            let changes = report["changes"].as_array().into_iter().flatten();
            let worse = changes.filter_map(|change| {
                let place = change["place"].as_str()?;
                let more = change["after"].as_f64()? - change["before"].as_f64()?;
                place.starts_with("critical at scales.c").then_some(more)
            });
            let worse: f64 = worse.sum();
            check((0.02..0.2 + slack).contains(&worse), || {
                format!("critical: {worse} s more\n{report}")
            })
        },
    )?;
    // The negative control: a run compared with itself.
    let same = json(&["--compare", &file, &file])?;
    check(same["speed_up"].as_f64() == Some(1.0), || same.to_string())?;
    let changes = same["changes"].as_array().into_iter().flatten();
    let any = changes.filter(|change| change["before"] != change["after"]);
    check(any.count() == 0, || same.to_string())
}

/// Work that takes longer with more threads is told: that of threads that write to one line, and not
/// that of threads whose lines are their own, nor of a run that is compared with itself.
fn growth(compiler: Compiler) -> Result<(), Verdict> {
    let source = programs().join("compared/lines.c");
    let _alone = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    for (flags, is_grown) in [(&[][..], true), (&["-DAPART"], false)] {
        let program = build(&source, compiler, flags)?;
        let program = program.to_string_lossy().into_owned();
        let file = format!("{program}.one-thread.recording");
        attempt_without_plan(|| {
            json(&["--output", &file, "env", "OMP_NUM_THREADS=1", &program])?;
            let compare = ["--compare", &file, "env", "OMP_NUM_THREADS=2", &program];
            let report = json(&compare)?;
            let grown = report["growth"].as_array().into_iter().flatten();
            let grown: Vec<bool> = grown
                .map(|one| {
                    let figure = |key: &str| one[key].as_f64().unwrap_or(f64::NAN);
                    let is_there = one["place"]
                        .as_str()
                        .is_some_and(|it| it.contains("lines.c:"));
                    is_there && figure("with_more_threads") > 1.25 * figure("with_fewer_threads")
                })
                .collect();
            let wanted: &[bool] = if is_grown { &[true] } else { &[] };
            check(grown == wanted, || format!("{flags:?}: {report:#}"))
        })?;
        let same = json(&["--compare", &file, &file])?;
        check(same["growth"].as_array().is_some_and(Vec::is_empty), || {
            same.to_string()
        })?;
    }
    Ok(())
}

/// Each grouping has the keys that are promised, and its parts add up; the text names what
/// JSON has; --report leaves standard output to the program.
fn groupings(compiler: Compiler) -> Result<(), Verdict> {
    let program = program(compiler)?;
    for (by, name) in [
        // Which line is the compiler's choice.
        ("construct", "parallel region at scales.c:"),
        ("function", "main"),
    ] {
        let report = json(&["--by", by, "env", "OMP_NUM_THREADS=2", &program])?;
        let intervals = report["intervals"].as_array().into_iter().flatten();
        let one = intervals
            .filter(|one| {
                one["name"]
                    .as_str()
                    .is_some_and(|found| found.contains(name))
            })
            .collect::<Vec<_>>();
        check(one.len() == 1, || format!("{by}: {report}"))?;
        for whole in [&report, one[0]] {
            let figure = |key: &str| {
                whole[key]
                    .as_f64()
                    .ok_or_else(|| Verdict::Wrong(format!("{by}: no {key} in {whole}")))
            };
            let parts = figure("productive")? + figure("lost")? + figure("idle")?;
            check((parts - figure("total")?).abs() < 1e-6, || {
                whole.to_string()
            })?;
            for key in ["insufficient_parallelism", "desync", "efficiency"] {
                figure(key)?;
            }
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    let report = folder.join(format!("report-{}.txt", compiler.command()));
    let report = report.to_string_lossy().into_owned();
    let output = openmp(&["--report", &report, "--by", "construct", &program]);
    check(output.status.success() && output.stdout.is_empty(), || {
        format!("{output:?}")
    })?;
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    for wanted in [
        "Productive time",
        "Efficiency",
        "Threads: #",
        "Diagnosis",
        "scales.c",
    ] {
        check(text.contains(wanted), || format!("no {wanted} in\n{text}"))?;
    }
    Ok(())
}
