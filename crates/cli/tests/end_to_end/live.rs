//! Analyses that are made while the program runs: inside its process, without a file, and over a
//! trace that is still being written.

mod ends;
mod following;
mod three_ways;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Outcome, Requirement};

use crate::observer::{
    COMMAND, Verdict, natively, require, run, run_well, traced, trial, unspool, wrong,
};
use crate::order::{guest_command, must_fail_once};
use crate::scratch::Scratch;

/// Runs of a race until one of them must show.
const TURNS: usize = 20;

/// Increments in each run, over all threads.
const INCREMENTS: &str = "20000";

/// By the guest's number of a thread: how many increments, and how many of them found an even value.
type Counts = BTreeMap<i64, (u64, u64)>;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guest in ["order/increment", "order/increment_cas"] {
        trials.push(trial(
            format!("live::increments::{guest}"),
            move |scratch| {
                for turn in 0..5 {
                    if let Some(difference) = increments_differ(scratch, guest, "line-atomic")? {
                        return Err(Verdict::Wrong(format!("run {turn}: {difference}")));
                    }
                }
                Ok(())
            },
        ));
    }
    trials.push(trial(
        "live::increments::none_is_told_apart".to_owned(),
        |scratch| {
            must_fail_once(TURNS, || {
                Ok(increments_differ(scratch, "order/increment", "none")?.is_some())
            })
        },
    ));
    for guest in ["order/shared_strings", "order/many_threads"] {
        trials.push(trial(format!("live::values::{guest}"), move |scratch| {
            let outcome = run_well(scratch, &live(scratch, "line-atomic", &guest_of(guest)?))?;
            says(&outcome, "passed: the order explains the values of all")
        }));
    }
    trials.push(trial(
        "live::values::none_is_told_apart".to_owned(),
        |scratch| {
            let command = guest_of("order/shared_strings")?;
            must_fail_once(TURNS, || {
                let outcome = run(scratch, &live(scratch, "none", &command))?;
                Ok(outcome.ending == Ending::Exited(1))
            })
        },
    ));
    trials.push(trial("live::as_over_the_file".to_owned(), as_over_the_file));
    trials.push(trial("live::every_process".to_owned(), every_process));
    trials.push(trial("live::a_crash".to_owned(), a_crash));
    for order in ["line-atomic", "ticket", "timestamp", "none"] {
        trials.push(trial(format!("live::memory::{order}"), move |scratch| {
            memory(scratch, order)
        }));
    }
    trials.push(trial("live::followed".to_owned(), followed));
    trials.push(trial(
        "live::followed::to_a_kill".to_owned(),
        followed_to_a_kill,
    ));
    trials.extend(ends::trials());
    trials.extend(following::trials());
    trials.extend(three_ways::trials());
    trials
}

fn guest_of(name: &str) -> Result<Vec<OsString>, Verdict> {
    match name {
        "order/shared_strings" => guest_command(name, &["3000"]),
        _ => guest_command(name, &["20", "2000"]),
    }
}

/// `unspool verify -- COMMAND`.
fn live(scratch: &Scratch, order: &str, command: &[OsString]) -> unspool_guests::Invocation {
    unspool(scratch, &["verify", "--order", order, "--"])
        .arguments(command)
        .limit(Duration::from_secs(120))
}

fn says(outcome: &Outcome, text: &str) -> Result<(), Verdict> {
    match outcome.stderr_text().contains(text) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "it must say `{text}`, and says: {}",
            outcome.stderr_text()
        ))),
    }
}

/// Runs the guest once, with a replay of its counter meanwhile; says where its own counts and those
/// of the replay differ.
fn increments_differ(
    scratch: &Scratch,
    guest: &str,
    order: &str,
) -> Result<Option<String>, Verdict> {
    let command = guest_command(guest, &["4", INCREMENTS])?;
    let counter = counter_of(&run_well(
        scratch,
        &unspool(scratch, &["run", "--no-persistent-cache", "--"]).arguments(&command),
    )?)?;
    let answer = scratch.path().join("answer.json");
    let options = [
        "replay-increments",
        "--json",
        "--order",
        order,
        "--address",
        &counter,
        "-o",
    ];
    let observed = unspool(scratch, &options)
        .arguments([answer.as_os_str(), "--".as_ref()])
        .arguments(&command);
    let outcome = run_well(scratch, &observed)?;
    if counter_of(&outcome)? != counter {
        return Err(wrong("the counter stays where it is", &observed, &outcome));
    }
    let own = counts_of(&outcome);
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&answer)?)
        .map_err(|error| Verdict::Wrong(error.to_string()))?;
    let replayed: Counts = report["threads"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|thread| {
            let number = thread["registered_number"].as_i64()?;
            let counts = (
                thread["increments"].as_u64()?,
                thread["even_values"].as_u64()?,
            );
            Some((number, counts))
        })
        .collect();
    if own.len() != 4 {
        return Err(wrong("the guest prints its counts", &observed, &outcome));
    }
    Ok((own != replayed).then(|| format!("program: {own:?}\nreplay: {replayed:?}")))
}

fn counter_of(outcome: &Outcome) -> Result<String, Verdict> {
    let text = outcome.stdout_text();
    let address = text.lines().find_map(|line| line.strip_prefix("counter "));
    address
        .map(str::to_owned)
        .ok_or_else(|| Verdict::Wrong(format!("the guest prints its counter's address: {text}")))
}

fn counts_of(outcome: &Outcome) -> Counts {
    let parse = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["thread", number, "increments", increments, "evens", evens] => Some((
                number.parse().ok()?,
                (increments.parse().ok()?, evens.parse().ok()?),
            )),
            _ => None,
        }
    };
    outcome.stdout_text().lines().filter_map(parse).collect()
}

/// What is answered of a counter with which a program always does the same, live and over its trace.
fn as_over_the_file(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("order/increment", &["1", INCREMENTS])?;
    let file = scratch.path().join("recorded.unspool");
    let recorded = run_well(scratch, &traced(scratch, &[], &file, &command))?;
    let counter = counter_of(&recorded)?;
    let replay = ["replay-increments", "--json", "--address", &counter];
    let over_the_file = run_well(scratch, &unspool(scratch, &replay).arguments([&file]))?;
    std::fs::remove_file(&file)?;
    let answers = |start: &str| {
        let answer = scratch.path().join("answer.json");
        let observed = unspool(scratch, &replay)
            .arguments(["--start", start, "-o"])
            .arguments([answer.as_os_str(), "--".as_ref()])
            .arguments(&command);
        run_well(scratch, &observed)?;
        Ok::<_, Verdict>(std::fs::read_to_string(&answer)?)
    };
    let live = answers("0")?;
    if live != over_the_file.stdout_text() {
        let text = format!(
            "over the file: {}\nlive: {live}",
            over_the_file.stdout_text()
        );
        return Err(Verdict::Wrong(text));
    }
    // The control: another question has another answer.
    if answers("1")? == live {
        return Err(Verdict::Wrong(format!("it always answers {live}")));
    }
    let left: Vec<_> = std::fs::read_dir(scratch.work())?
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|name| name.to_string_lossy().contains("unspool"))
        .collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("nothing is written: {left:?}"))),
    }
}

/// A shell, what it forks, and what that becomes: each has an answer.
fn every_process(scratch: &Scratch) -> Result<(), Verdict> {
    require(&[Requirement::Program("bash".to_owned())])?;
    let script = "(exit 3); /bin/true; (read -r line < /etc/passwd); exit 7";
    let options = ["verify", "--unchecked", "100", "--", "bash", "-c", script];
    let observed = unspool(scratch, &options);
    let outcome = run(scratch, &observed)?;
    let text = outcome.stderr_text();
    let answers = text.matches("explains the values of").count();
    // The shell, two that it forks, and what executes `true`, before and afterwards.
    let is_right = outcome.ending == Ending::Exited(7) && answers >= 5 && text.contains("true:");
    match is_right {
        true => Ok(()),
        false => Err(wrong("each process has an answer", &observed, &outcome)),
    }
}

/// A program that dies by a signal has an answer, and dies by that signal.
fn a_crash(scratch: &Scratch) -> Result<(), Verdict> {
    require(&[Requirement::Program("python3".to_owned())])?;
    let script = "import ctypes; ctypes.string_at(8)";
    let options = [
        "verify",
        "--unchecked",
        "100",
        "--",
        "python3",
        "-c",
        script,
    ];
    let observed = unspool(scratch, &options);
    let outcome = run(scratch, &observed)?;
    if outcome.ending != Ending::Signalled(11) {
        return Err(wrong("it dies by SIGSEGV", &observed, &outcome));
    }
    says(&outcome, "explains the values of")
}

/// What waits for a thread that sleeps all the time takes no memory to speak of.
fn memory(scratch: &Scratch, order: &str) -> Result<(), Verdict> {
    require(&[Requirement::Program("python3".to_owned())])?;
    let program = guest_command("order/sleeper", &["1000"])?;
    let observed = unspool(
        scratch,
        &["verify", "--order", order, "--unchecked", "100", "--"],
    )
    .arguments(&program);
    let script = format!(
        "import resource, subprocess\n\
         subprocess.run(['bash', '-c', {:?}])\n\
         print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)",
        observed.command_line()
    );
    let measured = natively(scratch, &["python3", "-c", &script]).limit(Duration::from_secs(240));
    let outcome = run_well(scratch, &measured)?;
    let text = outcome.stdout_text();
    let megabytes: u64 = text
        .lines()
        .last()
        .and_then(|line| line.parse().ok())
        .unwrap_or(u64::MAX);
    match megabytes < 130 {
        true => says(&outcome, "could be checked)").or(says(&outcome, "explains the values of")),
        false => Err(wrong("it takes less than 130 MB", &measured, &outcome)),
    }
}

/// The beginning of a script: `$pid` is a guest with threads that is traced into a file, whose header
/// is there; `verify` follows it.
fn begin(scratch: &Scratch, rounds: &str) -> Result<String, Verdict> {
    let file = scratch.path().join("running.unspool");
    let (file, command) = (file.display(), COMMAND.display());
    let guest = guest_command("order/sleeper", &[])?;
    Ok(format!(
        "'{command}' trace --verify -o '{file}' -- '{}' {rounds} > said 2>&1 & pid=$!; \
         until test -s '{file}'; do sleep 0.05; done; \
         verify() {{ '{command}' verify --unchecked 100 --follow '{file}'; }}; ",
        guest[0].display(),
    ))
}

/// A trace is checked while it is written: to its end, and nothing is missing.
fn followed(scratch: &Scratch) -> Result<(), Verdict> {
    let begin = begin(scratch, "800")?;
    // The control: what is there when it begins is not whole.
    let script = format!(
        "{begin} '{}' verify '{}/running.unspool' > early 2>&1 || true; verify; wait",
        COMMAND.display(),
        scratch.path().display()
    );
    let following = natively(scratch, &["bash", "-uc", &script]).limit(Duration::from_secs(120));
    let outcome = run_well(scratch, &following)?;
    let early = std::fs::read_to_string(scratch.work().join("early"))?;
    let is_right = early.contains("with --follow it is read to its end")
        && outcome.stdout_text().contains("explains the values of")
        && !outcome.stdout_text().contains("after records were lost");
    match is_right {
        true => Ok(()),
        false => Err(wrong(
            &format!("followed to its end; early: {early}"),
            &following,
            &outcome,
        )),
    }
}

/// What a killed writer has left is checked, and not called whole.
fn followed_to_a_kill(scratch: &Scratch) -> Result<(), Verdict> {
    let begin = begin(scratch, "1000000000")?;
    let script = format!(
        "{begin} verify > answer & reader=$!; sleep 2; kill -0 $reader || exit 3; \
         kill -9 $pid; wait $reader; status=$?; cat answer; exit $status"
    );
    let following = natively(scratch, &["bash", "-uc", &script]).limit(Duration::from_secs(120));
    let outcome = run(scratch, &following)?;
    let is_right = outcome.ending == Ending::Exited(2)
        && outcome.stdout_text().contains("explains the values of")
        && outcome.stderr_text().contains("cut off");
    match is_right {
        true => Ok(()),
        false => Err(wrong("it ends with what there is", &following, &outcome)),
    }
}
