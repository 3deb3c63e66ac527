//! `cargo xtask test`: all tests, on a machine that has what they observe.

use crate::{packages, step};

/// Install what the tests observe, and run them
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Install nothing; tests of programs that are missing are reported as ignored
    #[arg(long)]
    no_install: bool,

    /// Run all tests of large matrices, of which else there is a sample
    #[arg(long)]
    whole: bool,

    /// What chooses the sample: printed, to be given again
    #[arg(long, conflicts_with = "whole")]
    seed: Option<u64>,

    /// Arguments for `cargo test`, in place of `--workspace`
    #[arg(last = true)]
    cargo: Vec<String>,
}

/// Installs and tests.
///
/// # Errors
/// If a test fails. What cannot be installed is no error: it is named, and so is each test
/// that it keeps from running.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let missing = packages::missing();
    if !missing.is_empty() && (arguments.no_install || !packages::install(&missing)) {
        packages::report(&packages::missing());
    }
    let cargo: Vec<&str> = arguments.cargo.iter().map(String::as_str).collect();
    run_tests(&cargo, arguments.sample())
}

impl Arguments {
    /// What tells the end-to-end tests what to run.
    fn sample(&self) -> Option<(&'static str, String)> {
        match self.seed {
            Some(seed) => Some(("UNSPOOL_TEST_SEED", seed.to_string())),
            None => self.whole.then(|| ("UNSPOOL_TEST_WHOLE", "1".to_owned())),
        }
    }
}

/// Runs `cargo test` over the workspace, or with the arguments given.
///
/// # Errors
/// If a test fails.
pub(crate) fn run_tests(arguments: &[&str], sample: Option<(&str, String)>) -> anyhow::Result<()> {
    let mut words = vec!["test", "--release"];
    if arguments.is_empty() {
        words.extend(["--workspace", "--no-fail-fast"]);
    }
    words.extend(arguments);
    let mut tests = step::cargo(&words);
    tests.envs(sample);
    step::run(tests)
}
