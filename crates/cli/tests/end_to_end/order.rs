//! Proofs that the order in a trace is the order that happened, and that these proofs can
//! fail: the same programs in no order at all.
//!
//! The increment guests count what they themselves saw. Replaying a trace of one over a
//! simulated counter gives the same counts only if all increments stand in their true
//! order. The replay here reads the exported text and shares no code with the command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::Ending;

use crate::guest_programs::build;
use crate::observer::{Verdict, run, run_well, traced, trial, unspool, verified, wrong};
use crate::scratch::Scratch;

/// Runs of each increment guest with each number of threads.
const RUNS: usize = 20;

/// Increments in each run, over all threads.
const INCREMENTS: &str = "3000";

/// By thread: how many increments, and how many of them found an even value.
type Counts = BTreeMap<i64, (u64, u64)>;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guest in ["order/increment", "order/increment_cas"] {
        for threads in [2, 4, 8] {
            trials.push(trial(
                format!("order::line_atomic::{guest}::{threads}"),
                move |scratch| {
                    for turn in 0..RUNS {
                        if let Some(difference) =
                            replay_differs(scratch, guest, threads, "line-atomic")?
                        {
                            return Err(Verdict::Wrong(format!("run {turn}: {difference}")));
                        }
                    }
                    Ok(())
                },
            ));
        }
        trials.push(trial(
            format!("order::none_is_told_apart::{guest}"),
            move |scratch| {
                must_fail_once(RUNS, || {
                    Ok(replay_differs(scratch, guest, 4, "none")?.is_some())
                })
            },
        ));
    }
    trials.push(trial(
        "order::values::none_is_told_apart".to_owned(),
        |scratch| {
            let command = guest_command("order/increment", &["4", INCREMENTS])?;
            let file = scratch.path().join("none.unspool");
            must_fail_once(RUNS, || {
                let options = ["--order", "none", "--verify"];
                run_well(scratch, &traced(scratch, &options, &file, &command))?;
                let verify = verified(scratch, &file);
                let outcome = run(scratch, &verify)?;
                match outcome.ending {
                    Ending::Exited(0) => Ok(false),
                    Ending::Exited(1) => Ok(true),
                    _ => Err(wrong("verify answers yes or no", &verify, &outcome)),
                }
            })
        },
    ));
    trials.push(trial(
        "order::store_buffering::line_atomic".to_owned(),
        |scratch| {
            for _ in 0..3 {
                if both_zero(scratch, "line-atomic")? > 0 {
                    return Err(Verdict::Wrong(
                        "a thread read before its own write".to_owned(),
                    ));
                }
            }
            Ok(())
        },
    ));
    trials.push(trial(
        "order::store_buffering::none_is_told_apart".to_owned(),
        |scratch| {
            if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
                return Err(Verdict::CannotTell(
                    "one processor never reorders".to_owned(),
                ));
            }
            must_fail_once(RUNS, || Ok(both_zero(scratch, "none")? > 0))
        },
    ));
    trials.push(trial(
        "order::command_agrees_with_replay".to_owned(),
        |scratch| {
            let (file, counter, _) = record(scratch, "order/increment", 3, "line-atomic")?;
            let replayed = replay(scratch, &file, counter)?;
            let arguments: [OsString; 4] = [
                "replay-increments".into(),
                "--address".into(),
                counter.to_string().into(),
                file.into_os_string(),
            ];
            let command = unspool(scratch, &arguments);
            let outcome = run_well(scratch, &command)?;
            let text = outcome.stdout_text();
            for (increments, evens) in replayed.values() {
                let shown = text.lines().any(|line| {
                    let mut numbers = line.split(|letter: char| !letter.is_ascii_digit());
                    numbers.any(|word| word == increments.to_string())
                        && numbers.any(|word| word == evens.to_string())
                });
                if !shown {
                    let expected = format!("{increments} increments, {evens} of even values");
                    return Err(wrong(&expected, &command, &outcome));
                }
            }
            Ok(())
        },
    ));
    trials
}

/// A proof that never fails proves nothing.
pub(crate) fn must_fail_once(
    turns: usize,
    mut fails: impl FnMut() -> Result<bool, Verdict>,
) -> Result<(), Verdict> {
    for _ in 0..turns {
        if fails()? {
            return Ok(());
        }
    }
    Err(Verdict::Wrong(format!(
        "without order between threads, {turns} of {turns} runs passed"
    )))
}

/// How often both threads of the store-buffering guest read zero: what x86 permits and a
/// sequentially consistent machine does not.
fn both_zero(scratch: &Scratch, order: &str) -> Result<u64, Verdict> {
    let command = guest_command("order/store_buffering", &["20000"])?;
    let arguments = ["trace", "--discard", "--order", order, "--"];
    let observed = unspool(scratch, &arguments).arguments(&command);
    let outcome = run_well(scratch, &observed)?;
    let text = outcome.stdout_text();
    let count = text.split(' ').nth(2).and_then(|word| word.parse().ok());
    count.ok_or_else(|| wrong("the guest prints how often", &observed, &outcome))
}

/// The command that runs a guest with these arguments.
pub(crate) fn guest_command(name: &str, arguments: &[&str]) -> Result<Vec<OsString>, Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == name)
        .ok_or_else(|| Verdict::Wrong(format!("there is no guest {name}")))?;
    let mut command = vec![build(&guest, "")?.into_os_string()];
    command.extend(arguments.iter().map(OsString::from));
    Ok(command)
}

/// Traces an increment guest: the trace, the counter's address, and the guest's counts.
fn record(
    scratch: &Scratch,
    guest: &str,
    threads: u32,
    order: &str,
) -> Result<(std::path::PathBuf, u64, Counts), Verdict> {
    let command = guest_command(guest, &[&threads.to_string(), INCREMENTS])?;
    let file = scratch.path().join("trace.unspool");
    let observed = traced(scratch, &["--order", order], &file, &command);
    let outcome = run_well(scratch, &observed)?;
    let mut counter = None;
    let mut counts = Counts::new();
    for line in outcome.stdout_text().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["counter", address] => {
                counter = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok();
            }
            ["thread", number, "increments", increments, "evens", evens] => {
                let parse = |word: &str| word.parse().unwrap_or(u64::MAX);
                counts.insert(
                    number.parse().unwrap_or(-1),
                    (parse(increments), parse(evens)),
                );
            }
            _ => return Err(wrong("the guest prints its counts", &observed, &outcome)),
        }
    }
    match counter {
        Some(counter) if counts.len() == threads as usize => Ok((file, counter, counts)),
        _ => Err(wrong("the guest prints its counts", &observed, &outcome)),
    }
}

/// Runs the guest once; says where its own counts and those of the replay differ.
fn replay_differs(
    scratch: &Scratch,
    guest: &str,
    threads: u32,
    order: &str,
) -> Result<Option<String>, Verdict> {
    let (file, counter, counts) = record(scratch, guest, threads, order)?;
    let replayed = replay(scratch, &file, counter)?;
    if replayed == counts {
        return Ok(None);
    }
    Ok(Some(format!(
        "by thread (increments, evens)\nprogram: {counts:?}\nreplay:  {replayed:?}\ntrace: {}",
        file.display()
    )))
}

/// Replays all writes of the counter's word, in the order of the trace.
fn replay(scratch: &Scratch, file: &Path, counter: u64) -> Result<Counts, Verdict> {
    let export: [OsString; 5] = [
        "export".into(),
        "--format".into(),
        "tsv".into(),
        "--ordered".into(),
        file.into(),
    ];
    let export = unspool(scratch, &export).limit(Duration::from_secs(120));
    let outcome = run_well(scratch, &export)?;
    let counter = counter.to_string();
    let mut value = 0u64;
    let mut counts = Counts::new();
    for line in outcome.stdout_text().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [_time, thread, "m", accesses @ ..] = &fields[..] else {
            continue;
        };
        let writes = accesses
            .windows(2)
            .any(|pair| pair[0] == "w" && pair[1] == counter);
        if !writes {
            continue;
        }
        let thread = thread
            .parse()
            .map_err(|_| format!("no thread in `{line}`"))?;
        let (increments, evens) = counts.entry(thread).or_insert((0, 0));
        *increments += 1;
        *evens += u64::from(value.is_multiple_of(2));
        value += 1;
    }
    if counts.is_empty() {
        return Err(wrong(&format!("writes of {counter}"), &export, &outcome));
    }
    Ok(counts)
}
