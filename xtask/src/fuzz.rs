//! `cargo xtask fuzz`: random instructions, natively and observed.

use std::path::{Path, PathBuf};

use crate::step;

/// Compare random instructions, run natively and observed
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many cases to compare in each way of observing
    #[arg(long, default_value_t = 100_000)]
    cases: usize,

    /// Arguments for the fuzzer: see `cargo xtask fuzz -- --help`
    #[arg(last = true)]
    fuzzer: Vec<String>,
}

/// Builds and runs the fuzzer.
///
/// # Errors
/// If something differs, or cannot be built.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let packages = ["-p", "unspool", "-p", "unspool-fuzz-instructions"];
    step::run(step::cargo(
        &[&["build", "--release"], &packages[..]].concat(),
    ))?;
    let folder = products();
    let cases = arguments.cases.to_string();
    let unspool = folder.join("unspool").display().to_string();
    let mut words = vec!["--unspool", &unspool, "--cases", &cases];
    words.extend(arguments.fuzzer.iter().map(String::as_str));
    let fuzzer = folder.join("unspool-fuzz-instructions");
    step::run(step::command(&fuzzer.display().to_string(), &words))
}

/// Where cargo puts what it builds: beside this very executable.
fn products() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new("."));
    // xtask may have been built without optimisation.
    folder.with_file_name("release")
}
