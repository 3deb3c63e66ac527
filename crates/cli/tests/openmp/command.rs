//! Building programs and running the command on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Completion, Failed, Trial};
use serde_json::Value;

/// Who compiles a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// With libgomp.
    Gcc,
    /// With libomp.
    Clang,
    /// Fortran, with libgomp.
    Gfortran,
}

impl Compiler {
    /// The command.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Compiler::Gcc => "gcc",
            Compiler::Clang => "clang",
            Compiler::Gfortran => "gfortran",
        }
    }
}

/// Why a test did not pass.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The machine lacks something.
    CannotTell(String),
    /// What is wrong.
    Wrong(String),
}

/// A test by its name.
pub(crate) fn trial(
    name: String,
    body: impl FnOnce() -> Result<(), Verdict> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || match body() {
        Ok(()) => Ok(Completion::Completed),
        Err(Verdict::CannotTell(reason)) => Ok(Completion::ignored_with(reason)),
        Err(Verdict::Wrong(problem)) => Err(Failed::from(problem)),
    })
}

/// The folder of the programs.
pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openmp/programs")
}

/// Builds a program; returns where it is.
pub(crate) fn build(source: &Path, compiler: Compiler, flags: &[&str]) -> Result<PathBuf, Verdict> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    std::fs::create_dir_all(&folder).map_err(|error| Verdict::Wrong(error.to_string()))?;
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let program = folder.join(format!("{stem}-{}", compiler.command()));
    let mut command = Command::new(compiler.command());
    command
        .args(["-O2", "-g", "-Wall", "-fopenmp", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags);
    // Modules and other by-products belong to the products.
    command.current_dir(&folder);
    let output = command
        .output()
        .map_err(|_| Verdict::CannotTell(format!("{} is not installed", compiler.command())))?;
    if output.status.success() {
        return Ok(program);
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if compiler == Compiler::Clang && (text.contains("-lomp") || text.contains("omp.h")) {
        return Err(Verdict::CannotTell("libomp is not installed".to_owned()));
    }
    Err(Verdict::Wrong(format!("{command:?}\n{text}")))
}

/// Runs `unspool openmp` with these words.
pub(crate) fn openmp(words: &[&str]) -> Output {
    openmp_in(Path::new("."), words)
}

/// Runs it in a folder.
pub(crate) fn openmp_in(folder: &Path, words: &[&str]) -> Output {
    // A program that hangs must not hang the tests.
    let mut command = Command::new("timeout");
    command
        .args([
            "--kill-after=5",
            "60",
            env!("CARGO_BIN_EXE_unspool"),
            "openmp",
        ])
        .args(words);
    // The programs say themselves how many threads they want.
    command.env_remove("OMP_NUM_THREADS").current_dir(folder);
    // Threads that wait must not take processors from those whose work is measured.
    command.env("OMP_WAIT_POLICY", "passive");
    command.output().expect("the command under test starts")
}

/// Runs `unspool openmp --json` with these words, and reads the answer.
pub(crate) fn json(words: &[&str]) -> Result<Value, Verdict> {
    let all: Vec<&str> = ["--json"].iter().chain(words).copied().collect();
    let output = openmp(&all);
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let talk = String::from_utf8_lossy(&output.stderr);
        Verdict::Wrong(format!("unspool openmp {}: {error}\n{talk}", all.join(" ")))
    })
}

/// Fails unless the claim holds.
pub(crate) fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Verdict> {
    match holds {
        true => Ok(()),
        false => Err(Verdict::Wrong(otherwise())),
    }
}
