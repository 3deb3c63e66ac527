//! `unspool tool run --probe`: a program that runs natively, with a library of ours in it.
//!
//! The program runs in this very process, so that its caller sees it as it would without us.
//! Nobody is left to remove a file then: the library stays where it is kept.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use unspool_collector_library::PROBES;
use unspool_loader::ExecutableKind;
use unspool_probe::environment;

use crate::commands::observe::{c_string, not_loaded};
use crate::exit_status;
use crate::failure::Failure;
use crate::native_program::preload;
use crate::plan::{Children, ProbeChoice, ToolRunPlan};

/// The probes that come with the command, and what they tell.
pub(super) const ALL: &[(&str, &str)] = &[
    ("malloc-count", "How much it allocates by malloc"),
    (
        "malloc-callers",
        "Through which calls it allocates by malloc (its argument: how many of them to tell)",
    ),
    (
        "function-count",
        "How often the functions are called that its arguments name",
    ),
];

/// Whether there is a probe of this name.
pub(super) fn exists(name: &str) -> bool {
    ALL.iter().any(|(probe, _)| *probe == name)
}

/// Has the program take this process's place. Returns only if that is not possible.
pub(super) fn run(plan: &ToolRunPlan, choice: ProbeChoice) -> Result<u8, Failure> {
    let program = &plan.observed.program;
    let path = unspool_loader::resolve(program, std::env::var_os("PATH").as_deref())
        .map_err(|error| not_loaded(&error))?;
    check(&path)?;
    let (library, name) = library(&plan.tool.name)?;
    let follows = plan.children == Children::Follow;
    let settings = environment::settings(follows, choice.is_verbose, name, &plan.tool.arguments);
    let settings = settings.ok_or_else(|| {
        Failure::new("a probe's argument contains the character 0x1f, which separates arguments")
    })?;
    for word in plan.tool.arguments.iter().chain(&plan.observed.arguments) {
        c_string(word)?;
    }
    let error = Command::new(&path)
        .arg0(program)
        .args(&plan.observed.arguments)
        .env(environment::VARIABLE, settings)
        .env("LD_PRELOAD", preload::variable(&library))
        .exec();
    let status = match error.kind() {
        io::ErrorKind::NotFound => exit_status::NOT_FOUND,
        _ => exit_status::NOT_EXECUTABLE,
    };
    let failure = Failure::new(format!("cannot run {}: {error}", path.display()));
    Err(failure.with_status(status))
}

/// Whether the loader of the program will load a library of ours.
fn check(path: &Path) -> Result<(), Failure> {
    let kind = unspool_loader::check(path).map_err(|error| not_loaded(&error))?;
    let mut program = &kind;
    let mut name = path;
    while let ExecutableKind::Script { interpreter, runs } = program {
        (program, name) = (&**runs, &**interpreter);
    }
    let (name, refused) = (name.display(), exit_status::NOT_EXECUTABLE);
    let instead = "run it translated, under a tool: unspool tool run TOOL -- PROGRAM";
    let failure = match program {
        ExecutableKind::Elf32 { architecture } => Failure::new(format!(
            "{name}: a program for {architecture}, and probes are for x86-64"
        )),
        ExecutableKind::Elf64 { privileges, .. } if privileges.any() => Failure::new(format!(
            "{name}: into programs with privileges of their own (set-user-id, set-group-id, file \
             capabilities) nothing is loaded"
        ))
        .with_help("run it as the user whose privileges it gets"),
        ExecutableKind::Elf64 { interpreter, .. } => match interpreter {
            None => Failure::new(format!(
                "{name}: a static program, into which nothing can be loaded"
            ))
            .with_help(instead),
            Some(loader) if is_gnu(loader) => return Ok(()),
            Some(loader) => Failure::new(format!(
                "{name}: its loader {} is not that of the GNU C library, for which probes are made",
                loader.display()
            ))
            .with_help(instead),
        },
        ExecutableKind::Script { .. } => return Ok(()),
    };
    Err(failure.with_status(refused))
}

/// Whether a dynamic loader is the GNU C library's, by its usual name.
fn is_gnu(loader: &Path) -> bool {
    let name = loader.file_name().map(OsStr::as_bytes).unwrap_or_default();
    name.starts_with(b"ld-linux") || name.starts_with(b"ld-2.")
}

/// The library of a probe, and which of those in it is wanted.
fn library(tool: &OsStr) -> Result<(PathBuf, &str), Failure> {
    let shipped = tool.to_str().filter(|name| exists(name));
    let (path, name) = match shipped {
        Some(name) => (preload::kept("unspool_probes", PROBES)?, name),
        None if tool.as_bytes().contains(&b'/') => {
            let path = Path::new(tool).canonicalize();
            (
                path.with_context(|| format!("cannot find the probe {}", tool.display()))?,
                "",
            )
        }
        None => {
            let missing = format!("there is no probe `{}`", tool.display());
            return Err(Failure::new(missing).with_help(
                "unspool tool list names those that there are; a library of yours needs a slash: ./libNAME.so",
            ));
        }
    };
    preload::check_path(&path).map_err(|failure| failure.with_help("put it elsewhere"))?;
    check_library(&path)?;
    Ok((path, name))
}

/// Whether a file is a library that can be loaded.
fn check_library(path: &Path) -> Result<(), Failure> {
    if let Err(error) = unspool_binary::Module::open(path) {
        return Err(Failure::from(anyhow::Error::from(error)).with_help(
            "a probe is a library for x86-64, which unspool tool new --probe NAME begins",
        ));
    }
    preload::check_code(path)
        .map_err(|failure| failure.with_help("put it into a file system without noexec"))
}
