//! `cargo xtask bench`: what observing costs, as ratios to native runs of the same minute.
//!
//! `bench/README.md` says what is measured, how, and within which limits.

mod applications;
mod catalogue;
mod figure;
mod inputs;
mod limits;
mod machine;
mod measure;
mod memory;
mod options;
mod own_build;
mod peer;
mod prepare;
mod process;
mod render;
mod results;
#[cfg(test)]
mod scripts;
mod statistics;
mod summary;
mod table;
mod trace_file;
mod variant;

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;

use catalogue::Program;
use limits::State;
use machine::Machine;
use measure::Measuring;
use options::Options;
use peer::Peer;
use prepare::{Places, prepare};
use results::{ProgramResult, Results};
use variant::{Mode, Variant};

use crate::step;

/// Runs the benchmarks; `arguments` are the words after `bench`.
///
/// # Errors
/// If nothing can be measured, and with `--check` if a limit is missed.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> anyhow::Result<()> {
    let options = Options::try_parse_from(arguments).unwrap_or_else(|error| error.exit());
    if options.list {
        for program in catalogue::all().filter(|program| options.selects(program)) {
            println!("{}", program.name);
        }
        return Ok(());
    }
    let root = workspace_root()?;
    let places = Places {
        sources: root.join("bench/programs"),
        data: root.join("target/bench-data"),
    };
    std::fs::create_dir_all(&places.data)
        .with_context(|| format!("cannot make {}", places.data.display()))?;
    let _alone = lock(&places.data)?;
    process::adopt_orphans().context("cannot become the parent of orphans")?;

    let mut notes: Vec<String> = machine::busy_note().into_iter().collect();
    notes.extend(options.selection_note());
    let variants = variants(&options, &root, &places, &mut notes)?;
    let results = Results {
        schema: "unspool-bench",
        version: results::SCHEMA_VERSION,
        machine: Machine::detect(),
        runs: options.runs,
        small: options.small(),
        programs: measure_all(&options, &places, &variants)?,
        notes,
        verdicts: Vec::new(),
    };
    let results = Results {
        verdicts: limits::judge(&results.programs, results.small),
        ..results
    };

    if options.json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        print!("{}", render::text(&results));
    }
    if options.save {
        let directory = root.join("bench/results");
        let path = directory.join(results.machine.result_file_name());
        std::fs::create_dir_all(&directory)
            .and_then(|()| std::fs::write(&path, render::markdown(&results)))
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("saved {}", path.display());
    }
    if options.check {
        check(&results, options.complete())
    } else {
        Ok(())
    }
}

fn workspace_root() -> anyhow::Result<PathBuf> {
    let root = step::workspace();
    root.canonicalize()
        .with_context(|| format!("cannot find {}", root.display()))
}

/// Keeps a second measurement from starting: both would spoil each other's figures and
/// files. Held until the file is closed.
fn lock(data: &Path) -> anyhow::Result<File> {
    let path = data.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another measurement is running in {}", data.display())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// What to compare with native.
fn variants(
    options: &Options,
    root: &Path,
    places: &Places,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<Variant>> {
    let mut modes = options.modes.clone();
    modes.retain(|mode| *mode != Mode::Native);
    if options.modes.is_empty() {
        modes = Mode::usual();
        if options.compare.is_some() {
            modes.retain(|mode| !mode.writes_trace());
        }
        if options.peers {
            modes.extend(Peer::ALL.map(Mode::Peer));
        }
    }
    let absolute = |path: &PathBuf| {
        path.canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))
    };
    let unspool = match &options.unspool {
        Some(path) => absolute(path)?,
        None if modes.iter().any(|mode| mode.is_ours()) => own_build::build(root)?,
        None => PathBuf::new(),
    };
    let other = options.compare.as_ref().map(absolute).transpose()?;
    let mut variants = Vec::new();
    for mode in modes {
        let observer = match mode {
            Mode::Peer(peer) => match peer.prepare(places) {
                Ok(words) => words,
                Err(reason) => {
                    notes.push(format!("{} was skipped: {reason:#}", mode.name()));
                    continue;
                }
            },
            _ => vec![unspool.clone().into()],
        };
        variants.push(Variant {
            mode,
            observer,
            is_other_build: false,
        });
        if let Some(other) = other.as_ref().filter(|_| mode.is_ours()) {
            variants.push(Variant {
                mode,
                observer: vec![other.clone().into()],
                is_other_build: true,
            });
        }
    }
    Ok(variants)
}

/// What has something to observe in this program.
fn variants_for(program: &Program, variants: &[Variant]) -> Vec<Variant> {
    let applies = |variant: &&Variant| match variant.mode {
        Mode::Run | Mode::RunPersistent => true,
        Mode::Openmp => program.uses_openmp(),
        _ => !program.is_application(),
    };
    variants.iter().filter(applies).cloned().collect()
}

fn measure_all(
    options: &Options,
    places: &Places,
    variants: &[Variant],
) -> anyhow::Result<Vec<ProgramResult>> {
    let measuring = Measuring {
        places: places.clone(),
        runs: options.runs,
        time_limit: Duration::from_secs(options.time_limit_s),
        sample_memory: options.memory,
    };
    let mut programs = Vec::new();
    for program in catalogue::all().filter(|program| options.selects(program)) {
        let result = match prepare(program, options.small(), places) {
            Err(reason) => ProgramResult::skipped(program, format!("{reason:#}")),
            Ok(prepared) => measuring
                .measure(&prepared, &variants_for(program, variants))
                .with_context(|| format!("cannot measure {}", program.name))?,
        };
        report_progress(&result);
        programs.push(result);
    }
    if programs.is_empty() {
        bail!("no program has such a name; --list shows all names");
    }
    Ok(programs)
}

/// One line for each program on standard error, so that a long run shows that it lives.
fn report_progress(result: &ProgramResult) {
    let mut line = format!("{}:", result.name);
    if let Some(reason) = &result.skipped {
        line.push_str(&format!(" skipped, {reason}"));
    }
    for column in &result.columns {
        match (
            column.variant.mode,
            column.cpu_ratio,
            column.problems.first(),
        ) {
            (.., Some(problem)) => line.push_str(&format!(" {} failed ({problem})", column.label)),
            (Mode::Native, ..) => {
                let seconds = statistics::median(&column.cpu_s).unwrap_or(0.0);
                line.push_str(&format!(" native {seconds:.2} s"));
            }
            (_, Some(ratio), _) => line.push_str(&format!(" {} {ratio:.2}", column.label)),
            (_, None, None) => {}
        }
    }
    eprintln!("{line}");
}

/// Fails unless all limits hold and all programs behaved. What was not measured is held
/// against a complete run only: a part of the programs or modes cannot tell everything.
fn check(results: &Results, complete: bool) -> anyhow::Result<()> {
    let mut reasons = Vec::new();
    for verdict in &results.verdicts {
        match verdict.state {
            State::Missed => {
                reasons.push(format!("missed: {} ({})", verdict.limit, verdict.measured));
            }
            State::NotMeasured | State::Unsteady if complete => {
                reasons.push(format!(
                    "not judged: {} ({})",
                    verdict.limit, verdict.measured
                ));
            }
            State::NotMeasured | State::Unsteady | State::Met => {}
        }
    }
    for program in &results.programs {
        // A peer that fails is reported, but is nothing that this project could mend.
        for column in program
            .columns
            .iter()
            .filter(|column| !column.variant.mode.is_peer())
        {
            for problem in &column.problems {
                reasons.push(format!("{}, {}: {problem}", program.name, column.label));
            }
        }
    }
    if !reasons.is_empty() {
        bail!("the limits do not hold:\n  {}", reasons.join("\n  "));
    }
    Ok(())
}
