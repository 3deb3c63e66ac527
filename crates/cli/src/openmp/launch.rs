//! Running a program with the collector loaded, and gathering what it left.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use unspool_collector_library::LIBRARY;
use unspool_openmp::Recording;
use unspool_openmp_record::ProcessRecord;

use super::machine::Moment;
use crate::failure::{Failure, warn};
use crate::native_program::{ignore_interrupts, not_started, preload, status_of, termination};

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) recording: Recording,
    /// The status to end with: the program's.
    pub(super) status: u8,
}

/// Runs a program to its end.
pub(super) fn run(words: &[OsString], spans: bool, to_stderr: bool) -> Result<Run, Failure> {
    let library = preload::kept("unspool_collector", LIBRARY)?;
    let folder = Folder::new()?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("UNSPOOL_OPENMP_DIRECTORY", &folder.path);
    command.env("LD_PRELOAD", preload::variable(&library));
    // OpenMP's own way to name a tool, which must not be given another one meanwhile.
    command
        .env_remove("OMP_TOOL_LIBRARIES")
        .env("OMP_TOOL", "enabled");
    if spans {
        command.env("UNSPOOL_OPENMP_SPANS", "1");
    }
    if to_stderr {
        command.stdout(Stdio::from(io::stderr()));
    }
    let before = Moment::now();
    let mut child = command
        .spawn()
        .map_err(|error| not_started(&words[0], &error))?;
    ignore_interrupts();
    termination::pass_on_to(child.id());
    let status = child.wait().context("cannot wait for the program")?;
    termination::pass_on_no_more();
    let end_ns = monotonic_ns();
    let others = before.and_then(|before| before.others_since());
    let records = gather(&folder.path, u64::from(child.id()), end_ns)?;
    let command = words
        .iter()
        .map(|word| word.display().to_string())
        .collect();
    Ok(Run {
        recording: Recording {
            others,
            ..Recording::new(command, &records)
        },
        status: status_of(status),
    })
}

/// Reads what all processes left.
fn gather(folder: &Path, child: u64, end_ns: u64) -> Result<Vec<ProcessRecord>, Failure> {
    let context = || format!("cannot read {}", folder.display());
    let mut records = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "openmp")
        {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let process = name
            .split('-')
            .next()
            .and_then(|number| number.parse().ok());
        // Only of its own child this process knows when it ended.
        let end_ns = (process == Some(child)).then_some(end_ns);
        let bytes =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match ProcessRecord::read(&bytes, end_ns) {
            Ok(record) => records.push(record),
            Err(error) => warn(format_args!("process {name}: {error}")),
        }
    }
    // A launcher of an MPI job, or a shell, that used OpenMP nowhere says nothing.
    records.retain(|record| !record.constructs.is_empty());
    Ok(records)
}

fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A folder of our own, gone when the run has been read.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let name = format!("unspool-openmp-{}-{}", std::process::id(), monotonic_ns());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            warn(format_args!(
                "cannot remove {}: {error}",
                self.path.display()
            ));
        }
    }
}
