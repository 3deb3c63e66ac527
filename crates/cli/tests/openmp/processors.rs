//! Threads that are ready to run and have no processor: told apart from work and from waits, with
//! who has the processors, and what to do.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use libtest_mimic::Trial;
use serde_json::Value;

use crate::command::{Compiler, Verdict, build, check, json, programs, trial};

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let name = |test: &str| format!("processors::{test}::{}", compiler.command());
        trials.push(trial(name("one_for_two_threads"), move || shared(compiler)));
        trials.push(trial(name("others_have_them"), move || beside(compiler)));
        trials.push(trial(name("nobody_else"), move || alone(compiler)));
    }
    // LLVM's threads yield while they spin, and so take nothing from others.
    trials.push(trial(
        "processors::waiting_by_spinning::gcc".to_owned(),
        || spinning(Compiler::Gcc),
    ));
    trials
}

/// The processor time that the program takes for its work.
const WORK: f64 = 0.6;
/// How far the productive time may be from it: the runtime's own work is in it too, and what an
/// interrupt takes.
const TOLERANCE: f64 = 0.1;
/// The part of the time without a processor that may count as work: each time that a thread stops,
/// some of it is before the one reading of the kernel's counts and some behind the other.
const UNSEEN: f64 = 0.02;
/// Where threads lack a processor for more of their time, whether those that wait spin hardly shows.
const HARDLY_ANY: f64 = 0.8;

/// How often a run is repeated that others have disturbed.
const ATTEMPTS: usize = 10;

/// Held by tests that need processors, or take them from others.
pub(crate) static PROCESSORS: Mutex<()> = Mutex::new(());

/// Runs the program with two threads, with this before it and that behind.
fn report(compiler: Compiler, settings: &[&str], words: &[&str]) -> Result<Value, Verdict> {
    let source = programs().join("troubled/processors.c");
    let program = build(&source, compiler, &[])?
        .to_string_lossy()
        .into_owned();
    let seconds = WORK.to_string();
    let mut all = vec!["env", "OMP_NUM_THREADS=2"];
    all.extend(settings);
    all.extend([program.as_str(), seconds.as_str()]);
    all.extend(words);
    json(&all)
}

/// Programs that want all processors, until this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn start() -> Busy {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let endless = || {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", "while :; do :; done"])
                .stdin(Stdio::null());
            shell.spawn().expect("a shell starts")
        };
        Busy((0..2 * processors).map(|_| endless()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().expect("it is there until it is killed");
            child.wait().expect("it is a child of this process");
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// What part of all threads' time was lost for lack of a processor.
fn lacking(report: &Value) -> f64 {
    number(&report["losses"]["processor"]) / number(&report["total"])
}

fn diagnosis(report: &Value) -> String {
    let all = report["diagnosis"].as_array().into_iter().flatten();
    let sentences: Vec<&str> = all.filter_map(Value::as_str).collect();
    sentences.join("\n")
}

/// What is productive is what the program took of processors, whatever else they did.
fn is_productive(report: &Value) -> Result<(), Verdict> {
    let found = number(&report["productive"]) + number(&report["losses"]["duplicated"]);
    let unseen = UNSEEN * number(&report["losses"]["processor"]);
    check((found - WORK).abs() <= TOLERANCE * WORK + unseen, || {
        format!("{found} s of work instead of {WORK}:\n{report:#}")
    })
}

/// Two threads on one processor wait for it as long as they work; with one thread, as the
/// sentence says, nobody does.
fn shared(compiler: Compiler) -> Result<(), Verdict> {
    let _alone = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = report(compiler, &[], &["pinned"])?;
    is_productive(&found)?;
    check(lacking(&found) > 0.35, || format!("{found:#}"))?;
    let told = diagnosis(&found);
    let advice = "2 threads share 1 processors; OMP_NUM_THREADS=1 gives each its own";
    check(told.contains(advice), || told)?;
    let found = report(compiler, &["OMP_NUM_THREADS=1"], &["pinned"])?;
    is_productive(&found)?;
    let told = diagnosis(&found);
    check(!told.contains("processors;"), || told)
}

/// Others that want all processors are named, and what they take is neither work nor imbalance.
fn beside(compiler: Compiler) -> Result<(), Verdict> {
    let _alone = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    let busy = Busy::start();
    let is_one = |most: &Value| busy.0.iter().any(|one| most["process"] == one.id());
    let mut unknown = String::new();
    for _ in 0..ATTEMPTS {
        let found = report(compiler, &[], &[])?;
        is_productive(&found)?;
        check(lacking(&found) > 0.25, || format!("{found:#}"))?;
        let imbalance = number(&found["desync"]) / number(&found["total"]);
        check(imbalance < 0.15, || format!("{found:#}"))?;
        let told = diagnosis(&found);
        check(told.contains("other programs use "), || told.clone())?;
        // On a busy machine another one may have run longer.
        if is_one(&found["others"]["most"]) {
            let name = "most of all sh (process ";
            return check(told.contains(name), || told);
        }
        unknown = told;
    }
    // Who took them was told, but it was none of this test's own each time.
    Err(Verdict::CannotTell(unknown))
}

/// The control: where nobody takes processors, nothing is said of them. Whether somebody did is
/// seen by how long the program took: its work divided by its threads, and hardly more.
fn alone(compiler: Compiler) -> Result<(), Verdict> {
    let _alone = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..ATTEMPTS {
        let found = report(compiler, &[], &[])?;
        is_productive(&found)?;
        if number(&found["execution_time"]) > 1.04 * WORK / 2.0 {
            continue;
        }
        check(lacking(&found) < 0.05, || format!("{found:#}"))?;
        let told = diagnosis(&found);
        return check(!told.contains("without a processor"), || told);
    }
    let why = "other programs use the processors";
    Err(Verdict::CannotTell(why.to_owned()))
}

/// Threads that spin while they wait are told from those that work; with the setting that the
/// sentence names they do not.
fn spinning(compiler: Compiler) -> Result<(), Verdict> {
    let advice = "OMP_WAIT_POLICY=passive leaves to those that work";
    let _alone = PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner);
    let _busy = Busy::start();
    let ran = |report: &Value| {
        let times = report["processes"][0]["thread_times"].as_array();
        times
            .into_iter()
            .flatten()
            .map(|one| number(&one["running"]))
            .sum::<f64>()
    };
    let active = report(compiler, &["OMP_WAIT_POLICY=active"], &["alone"])?;
    if lacking(&active) > HARDLY_ANY {
        let why = "other programs use the processors";
        return Err(Verdict::CannotTell(why.to_owned()));
    }
    let told = diagnosis(&active);
    check(told.contains(advice), || format!("{told}\n{active:#}"))?;
    let passive = report(compiler, &["OMP_WAIT_POLICY=passive"], &["alone"])?;
    let told = diagnosis(&passive);
    check(!told.contains(advice), || format!("{told}\n{passive:#}"))?;
    check(
        ran(&passive) < WORK * (1.0 + TOLERANCE) && ran(&active) > ran(&passive),
        || {
            format!(
                "{} s with threads that spin, {} s without",
                ran(&active),
                ran(&passive)
            )
        },
    )
}
