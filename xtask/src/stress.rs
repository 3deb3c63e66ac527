//! `cargo xtask stress`: the same tests again and again, beside processes that keep the
//! processors busy.

use std::process::{Child, Stdio};
use std::time::{Instant, UNIX_EPOCH};

use anyhow::{Context, bail};

use crate::step;

/// Repeat guests and other end-to-end tests beside busy processes
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often to run the tests
    #[arg(long, default_value_t = 100)]
    rounds: u32,

    /// How many processes compute beside them
    #[arg(long, default_value_t = 8)]
    busy: u32,

    /// How many tests to run at once
    #[arg(long, default_value_t = 3)]
    at_once: u32,

    /// Leave the windows of races as they are. Otherwise threads wait in them now and then, in
    /// every second round
    #[arg(long)]
    narrow: bool,

    /// What decides where threads wait: printed, to be given again
    #[arg(long)]
    seed: Option<u64>,

    /// Tests to repeat: those whose name contains one of these words
    #[arg(default_values = DEFAULT)]
    tests: Vec<String>,
}

/// What sets two asynchronous things against each other.
const DEFAULT: [&str; 12] = [
    "signals/",
    "instructions/marked",
    "control/near_and_far",
    "processes/fork",
    "processes/execute",
    "processes/many_states",
    "processes/vfork",
    "memory/cross_modifying",
    "memory/lent_code",
    "seccomp/trapped_among_signals",
    "threads/identity_of_all",
    "threads/cancellation",
];

const TESTS: [&str; 6] = ["test", "--release", "-p", "unspool", "--test", "end_to_end"];

/// Processes that compute until this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn start(count: u32) -> anyhow::Result<Busy> {
        let mut busy = Busy(Vec::new());
        for _ in 0..count {
            let mut command = step::command("sh", &["-c", "while :; do :; done"]);
            let child = command.stdin(Stdio::null()).spawn();
            busy.0.push(child.context("cannot start a busy process")?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended by itself is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How tests have ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    /// What the test program says of itself in its last lines; nothing if it does not.
    fn of(output: &str) -> Option<Count> {
        let line = output
            .lines()
            .rev()
            .find(|line| line.starts_with("test result: "))?;
        let number = |what: &str| {
            let (before, _) = line.split_once(what)?;
            before.trim_end().rsplit(' ').next()?.parse().ok()
        };
        Some(Count {
            passed: number("passed")?,
            failed: number("failed")?,
        })
    }

    fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// What the engine looks for to know that it has to widen the windows of races.
const WIDEN: &str = "UNSPOOL_WIDEN_RACES";

/// Builds and repeats the tests.
///
/// # Errors
/// If one fails: all rounds are made before, and each failure is shown when it comes.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    step::run(step::cargo(&[&TESTS[..], &["--no-run"]].concat()))?;
    let seed = arguments.seed.unwrap_or_else(now);
    println!("seed {seed}");
    let started = Instant::now();
    let mut all = Count::default();
    let _busy = Busy::start(arguments.busy)?;
    for round in 0..arguments.rounds {
        let number = seed.wrapping_add(u64::from(round));
        let widened = (!arguments.narrow && round % 2 == 1).then_some(number);
        for filter in &arguments.tests {
            all.add(repeat(filter, arguments.at_once, widened)?);
        }
        eprintln!(
            "round {} of {}: {} tests passed, {} failed, {} s",
            round + 1,
            arguments.rounds,
            all.passed,
            all.failed,
            started.elapsed().as_secs()
        );
    }
    if all.failed != 0 {
        bail!("{} of {} tests failed", all.failed, all.passed + all.failed);
    }
    println!("{} tests, none failed", all.passed);
    Ok(())
}

fn now() -> u64 {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_secs()
}

/// Runs the tests whose name contains a word once, the windows of races widened by a number.
fn repeat(filter: &str, at_once: u32, widened: Option<u64>) -> anyhow::Result<Count> {
    let at_once = format!("--test-threads={at_once}");
    let mut command = step::cargo(&[&TESTS[..], &["--", filter, &at_once]].concat());
    command.env_remove(WIDEN);
    if let Some(number) = widened {
        command.env(WIDEN, number.to_string());
    }
    let output = command
        .output()
        .with_context(|| format!("cannot run the tests of {filter}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = Count::of(&text);
    if output.status.success() {
        return count.with_context(|| format!("the tests of {filter} do not say how they ended"));
    }
    println!("{filter}, {WIDEN}={widened:?}: {}\n{text}", output.status);
    let failure = Count {
        passed: 0,
        failed: 1,
    };
    Ok(count.filter(|count| count.failed > 0).unwrap_or(failure))
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn the_last_result_counts() {
        let output = "running 3 tests\ntest result: ok. 9 passed; 9 failed\n\n\
                      test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured\n";
        let expected = Count {
            passed: 12,
            failed: 3,
        };
        assert_eq!(Count::of(output), Some(expected));
        assert_eq!(Count::of("killed"), None);
    }
}
