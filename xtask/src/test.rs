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
    let mut failures = Failures::default();
    let result = step::run_watched(tests, |line| failures.look(line));
    failures.repeat();
    result
}

/// What the tests of each binary printed of those that failed. Other binaries print after
/// it, so it is repeated at the end, where whoever reads a long log begins.
#[derive(Debug, Default)]
struct Failures {
    lines: Vec<String>,
    inside: bool,
}

impl Failures {
    fn look(&mut self, line: &str) {
        self.inside |= line == "failures:";
        if self.inside {
            self.lines.push(line.to_owned());
        }
        self.inside &= !line.starts_with("test result: ");
    }

    fn repeat(&self) {
        if !self.lines.is_empty() {
            println!("\n\nOnce more, what failed:\n\n{}", self.lines.join("\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failures;

    #[test]
    fn what_failed_is_kept_and_nothing_else() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n\
                      why\n\nfailures:\n    b\n\ntest result: FAILED. 1 passed; 1 failed\n\n\
                      running 1 test\ntest c ... ok\n\ntest result: ok. 1 passed";
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.look(line));
        assert_eq!(
            failures.lines.first().map(String::as_str),
            Some("failures:")
        );
        assert!(failures.lines.iter().any(|line| line == "    b"));
        assert!(failures.lines.iter().all(|line| !line.contains("test c")));
    }
}
