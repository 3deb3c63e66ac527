//! Building programs and running the command on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::{Completion, Failed, Trial};
use serde_json::Value;

use crate::attempts::begin_test;

/// Who compiles a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// With libgomp.
    Gcc,
    /// With libomp.
    Clang,
    /// C++, with libgomp.
    Gxx,
    /// C++, with libomp.
    Clangxx,
    /// Fortran, with libgomp.
    Gfortran,
    /// Fortran, with libomp.
    Flang,
}

impl Compiler {
    /// Its name, in names of tests and files.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Compiler::Gcc => "gcc",
            Compiler::Clang => "clang",
            Compiler::Gxx => "g++",
            Compiler::Clangxx => "clang++",
            Compiler::Gfortran => "gfortran",
            Compiler::Flang => "flang",
        }
    }

    /// The command to start, with the options that it always needs.
    pub(crate) fn start(self) -> Result<Command, Verdict> {
        let mut command = match self {
            Compiler::Flang => flang()?,
            _ => Command::new(self.command()),
        };
        command.args(["-O2", "-g", "-fopenmp"]);
        Ok(command)
    }

    /// Runs a command of it. A machine without the compiler or its runtime cannot tell.
    pub(crate) fn finish(self, command: &mut Command) -> Result<(), Verdict> {
        let missing = |_| Verdict::CannotTell(format!("{} is not installed", self.command()));
        let output = command.output().map_err(missing)?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_llvm = matches!(self, Compiler::Clang | Compiler::Clangxx | Compiler::Flang);
        if is_llvm && (text.contains("-lomp") || text.contains("omp.h")) {
            return Err(Verdict::CannotTell("libomp is not installed".to_owned()));
        }
        let is_unknown = ["not yet implemented", "unsupported OpenMP operation"];
        if self == Compiler::Flang && is_unknown.iter().any(|words| text.contains(words)) {
            let why = "this flang does not know the construct";
            return Err(Verdict::CannotTell(why.to_owned()));
        }
        Err(Verdict::Wrong(format!("{command:?}\n{text}")))
    }
}

/// Distributions have flang under names with its version, and libomp where only clang of the
/// same version finds it.
fn flang() -> Result<Command, Verdict> {
    let names = |folder: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let is_flang = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let version = name.trim_start_matches("flang").trim_start_matches("-new");
        let version = version.trim_start_matches('-');
        name.starts_with("flang") && version.bytes().all(|byte| byte.is_ascii_digit())
    };
    let program = names("/usr/bin").into_iter().find(is_flang);
    let program =
        program.ok_or_else(|| Verdict::CannotTell("flang is not installed".to_owned()))?;
    let mut command = Command::new(program);
    let libraries = names("/usr/lib").into_iter().map(|path| path.join("lib"));
    if let Some(folder) = libraries
        .into_iter()
        .find(|path| path.join("libomp.so").exists())
    {
        let folder = folder.display();
        command.args([format!("-L{folder}"), format!("-Wl,-rpath,{folder}")]);
    }
    Ok(command)
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
    Trial::ignorable_test(name.clone(), move || {
        begin_test(&name);
        match body() {
            Ok(()) => Ok(Completion::Completed),
            Err(Verdict::CannotTell(reason)) => Ok(Completion::ignored_with(reason)),
            Err(Verdict::Wrong(problem)) => Err(Failed::from(problem)),
        }
    })
}

/// The folder of the programs.
pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openmp/programs")
}

/// Builds a program; returns where it is.
pub(crate) fn build(source: &Path, compiler: Compiler, flags: &[&str]) -> Result<PathBuf, Verdict> {
    let mut command = compiler.start()?;
    if compiler != Compiler::Flang {
        command.arg("-Wall");
    }
    let name = format!(
        "{}-{}",
        source.file_stem().unwrap_or_default().to_string_lossy(),
        compiler.command()
    );
    build_by(command, source, &name, flags, |command| {
        compiler.finish(command)
    })
}

/// Builds a program by a command. Several tests may build the same one at the same time.
pub(crate) fn build_by(
    mut command: Command,
    source: &Path,
    name: &str,
    flags: &[&str],
    finish: impl FnOnce(&mut Command) -> Result<(), Verdict>,
) -> Result<PathBuf, Verdict> {
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let wrong = |error: std::io::Error| Verdict::Wrong(error.to_string());
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    // Modules and other by-products stay in a folder of this build.
    let own = folder.join(format!("build-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&own).map_err(wrong)?;
    command.args(["-o", "program"]);
    if source
        .extension()
        .is_some_and(|extension| extension == "f90")
    {
        command.arg(programs().join("shared/planted.f90"));
    }
    command.arg(source).args(flags).current_dir(&own);
    let built = finish(&mut command).and_then(|()| {
        let program = folder.join(name);
        std::fs::rename(own.join("program"), &program).map_err(wrong)?;
        Ok(program)
    });
    std::fs::remove_dir_all(&own).map_err(wrong)?;
    built
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
    json_and_talk(words).map(|(report, _)| report)
}

/// The same, with what the program and the command said besides.
pub(crate) fn json_and_talk(words: &[&str]) -> Result<(Value, String), Verdict> {
    let all: Vec<&str> = ["--json"].iter().chain(words).copied().collect();
    let output = openmp(&all);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    match serde_json::from_slice(&output.stdout) {
        Ok(report) => Ok((report, talk)),
        Err(error) => Err(Verdict::Wrong(format!(
            "unspool openmp {}: {error}\n{talk}",
            all.join(" ")
        ))),
    }
}

/// Fails unless the claim holds.
pub(crate) fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Verdict> {
    match holds {
        true => Ok(()),
        false => Err(Verdict::Wrong(otherwise())),
    }
}
