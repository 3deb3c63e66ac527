//! The diagnosis's advice is taken: the time falls by about as much as is promised,
//! and what was lost is no more.

mod taken;

use std::process::Command;
use std::sync::PoisonError;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::attempts::attempt_without_plan;
use crate::command::{Compiler, Verdict, build, check, json, programs, trial};
use crate::processors::PROCESSORS;

/// How many times more or less is saved than promised, at most. Looking at a call that takes some
/// nanoseconds, in which threads take a line from each other, changes how often they do.
const OFF: f64 = 3.0;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let name = |test: &str| format!("advice::{test}::{}", compiler.command());
        trials.push(trial(name("schedule"), move || schedule(compiler)));
        trials.push(trial(name("tasks"), move || tasks(compiler)));
    }
    trials.extend(taken::trials());
    trials
}

/// What a report says.
fn sentences(report: &Value) -> impl Iterator<Item = &str> {
    let sentences = report["diagnosis"].as_array().into_iter().flatten();
    sentences.filter_map(Value::as_str)
}

/// The first sentence of a report that begins so.
fn sentence<'report>(report: &'report Value, beginning: &str) -> Option<&'report str> {
    sentences(report).find(|sentence| sentence.starts_with(beginning))
}

fn lost(report: &Value, class: &str) -> f64 {
    report["losses"][class].as_f64().unwrap_or(f64::NAN)
}

/// What stands between two texts.
fn between<'text>(text: &'text str, before: &str, after: &str) -> Option<&'text str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

const LOOP: &str = "handing out the loop at schedule.c:";

fn schedule(compiler: Compiler) -> Result<(), Verdict> {
    let program = build(&programs().join("advised/schedule.c"), compiler, &[])?;
    let program = program.to_string_lossy().into_owned();
    // LLVM's runtime takes far longer to hand out a piece.
    let iterations = match compiler {
        Compiler::Clang => "2000000",
        _ => "40000000",
    };
    let observed = |schedule: &str| {
        let schedule = format!("OMP_SCHEDULE={schedule}");
        json(&["env", "OMP_NUM_THREADS=2", &schedule, &program, iterations])
    };
    // What all threads took, for each of them: so others on the machine count little.
    let took = |schedule: &str| -> Result<f64, Verdict> {
        let mut command = Command::new(&program);
        command.args([iterations]).envs([
            ("OMP_SCHEDULE", schedule),
            ("OMP_NUM_THREADS", "2"),
            ("OMP_WAIT_POLICY", "passive"),
        ]);
        let output = command
            .output()
            .map_err(|error| Verdict::Wrong(error.to_string()))?;
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        let took: Option<f64> = between(&talk, "took ", "\n").and_then(|text| text.parse().ok());
        took.map(|seconds| seconds / 2.0)
            .ok_or(Verdict::Wrong(talk))
    };
    let _alone = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    attempt_without_plan(|| {
        let report = observed("dynamic,1")?;
        let found = sentence(&report, LOOP);
        let promise = found.and_then(|sentence| {
            let chunk = between(sentence, "schedule(dynamic,", ")")?;
            let saved = between(sentence, "may save about ", " s")?;
            Some((chunk, saved.parse::<f64>().ok()?))
        });
        let Some((chunk, promised)) = promise else {
            let all = &report["diagnosis"];
            return Err(Verdict::Wrong(format!("no advice for the loop: {all:#}")));
        };
        check(lost(&report, "scheduling") > promised, || {
            format!("what is lost: {}", report["losses"])
        })?;
        let better = format!("dynamic,{chunk}");
        let saved = took("dynamic,1")? - took(&better)?;
        let share = saved / promised;
        check((1.0 / OFF..OFF).contains(&share), || {
            format!("{saved:.3} s are saved, {promised:.3} s were promised: {found:?}")
        })?;
        let report = observed(&better)?;
        check(lost(&report, "scheduling") < 0.1 * promised, || {
            format!("with {better}: {}", report["losses"])
        })
    })
}

fn tasks(compiler: Compiler) -> Result<(), Verdict> {
    let program = build(&programs().join("advised/fibonacci.c"), compiler, &[])?;
    let program = program.to_string_lossy().into_owned();
    let observed =
        |least: &str, number: &str| json(&["env", "OMP_NUM_THREADS=2", &program, least, number]);
    let _alone = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    attempt_without_plan(|| {
        let report = observed("2", "25")?;
        let found = sentence(&report, "creating the ");
        // fibonacci(n) creates two tasks in each of its calls with n of 2 or more.
        let is_counted =
            |sentence: &str| sentence.contains("creating the 121392 tasks at fibonacci.c:");
        check(found.is_some_and(is_counted), || {
            format!("what is said: {:#}", report["diagnosis"])
        })?;
        check(lost(&report, "tasking") > 0.0, || {
            format!("what is lost: {}", report["losses"])
        })?;
        // Each works for hundreds of microseconds on any processor.
        let report = observed("27", "32")?;
        check(sentence(&report, "creating the ").is_none(), || {
            format!("with few tasks: {:#}", report["diagnosis"])
        })
    })
}
