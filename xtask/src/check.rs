//! `cargo xtask check`: everything that a change must pass.
//!
//! All steps build in release mode, as the tests do, so that build scripts and procedural
//! macros are built once for all of them.

use crate::{step, test};

/// Format, lints, documentation and tests
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// All but the tests
    #[arg(long)]
    without_tests: bool,
}

/// Runs the checks, the cheap ones first.
///
/// # Errors
/// The first check that fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    step::run(step::cargo(&["fmt", "--all", "--check"]))?;
    step::run(step::cargo(&[
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    let mut documentation = step::cargo(&[
        "doc",
        "--release",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    step::run(documentation)?;
    if arguments.without_tests {
        return Ok(());
    }
    test::run_tests(&[], None)
}
