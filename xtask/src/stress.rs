//! `cargo xtask stress`: the same tests again and again, beside processes that keep the
//! processors busy.

use std::process::{Child, Stdio};
use std::time::Instant;

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

/// Builds and repeats the tests.
///
/// # Errors
/// If one fails: all rounds are made before, and each failure is shown when it comes.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let tests = ["test", "--release", "-p", "unspool", "--test", "end_to_end"];
    step::run(step::cargo(&[&tests[..], &["--no-run"]].concat()))?;
    let at_once = format!("--test-threads={}", arguments.at_once);
    let started = Instant::now();
    let (mut runs, mut failures) = (0_u32, 0_u32);
    let _busy = Busy::start(arguments.busy)?;
    for round in 1..=arguments.rounds {
        for filter in &arguments.tests {
            let words = [&tests[..], &["--quiet", "--", filter, &at_once]].concat();
            let output = step::cargo(&words)
                .output()
                .with_context(|| format!("cannot run the tests of {filter}"))?;
            runs += 1;
            if !output.status.success() {
                failures += 1;
                println!("round {round}, {filter}: {}", output.status);
                println!("{}", String::from_utf8_lossy(&output.stdout));
            }
        }
        eprintln!(
            "round {round} of {}: {failures} of {runs} runs failed, {} s",
            arguments.rounds,
            started.elapsed().as_secs()
        );
    }
    if failures != 0 {
        bail!("{failures} of {runs} runs failed");
    }
    println!("{runs} runs, none failed");
    Ok(())
}
