//! Runs a program in all variants, in turn, and compares what it prints.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::memory::Sampler;
use super::prepare::{Places, Prepared};
use super::process::{End, Usage, run_to_end};
use super::results::{ColumnResult, ProgramResult};
use super::trace_file::{self, Look};
use super::variant::{Mode, Variant};

/// How to measure.
#[derive(Debug, Clone)]
pub(crate) struct Measuring {
    /// Where files go.
    pub(crate) places: Places,
    /// Runs of each variant.
    pub(crate) runs: u32,
    /// Limit of one run.
    pub(crate) time_limit: Duration,
    /// Whether to sample the memory of the tree, in a run of its own.
    pub(crate) sample_memory: bool,
}

/// What a program left behind: how it ended, and length and hash of what it printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcome {
    end: End,
    output: (u64, u64),
}

impl Measuring {
    /// Measures a program: first once natively, uncounted, to warm the page cache and to
    /// learn what it prints, and an application also under `run`, until its translations are kept;
    /// then all variants in turn, round after round.
    ///
    /// # Errors
    /// If it does not even run natively, or files cannot be written.
    pub(crate) fn measure(
        &self,
        prepared: &Prepared,
        variants: &[Variant],
    ) -> anyhow::Result<ProgramResult> {
        let native = Variant {
            mode: Mode::Native,
            observer: Vec::new(),
            is_other_build: false,
        };
        let (expected, _) = self.run_once(prepared, &native, |_| ())?;
        if expected.end != End::Exited(0) {
            anyhow::bail!(
                "natively it ended with {:?}: {}",
                expected.end,
                self.last_words()
            );
        }

        let mut columns: Vec<ColumnResult> = std::iter::once(native)
            .chain(variants.iter().cloned())
            .map(ColumnResult::new)
            .collect();
        for column in &columns {
            for _ in 0..self.uncounted_runs(prepared, &column.variant) {
                self.run_once(prepared, &column.variant, |_| ())?;
            }
        }
        for round in 0..self.runs {
            for column in &mut columns {
                let rounds = column.variant.mode.runs(self.runs);
                if round >= rounds || !column.problems.is_empty() {
                    continue;
                }
                let (outcome, usage) = self.run_once(prepared, &column.variant, |_| ())?;
                if let Some(problem) = self.difference(outcome, expected) {
                    column.problems.push(problem);
                    continue;
                }
                column.add_run(usage);
                if column.variant.mode.writes_trace() {
                    let is_last = round + 1 == rounds;
                    let look = if is_last { Look::Contents } else { Look::Index };
                    self.inspect_trace(column, look);
                }
            }
        }
        if self.sample_memory {
            for column in columns
                .iter_mut()
                .filter(|column| column.problems.is_empty())
            {
                let mut sampler = None;
                self.run_once(prepared, &column.variant, |process| {
                    sampler = Some(Sampler::start(process));
                })?;
                column.peaks = sampler.map(Sampler::finish);
            }
        }
        self.clear_traces()?;
        Ok(ProgramResult::new(prepared.program, columns))
    }

    /// How often an application runs before it is measured: what its processes translate is kept
    /// by one of them after the other.
    fn uncounted_runs(&self, prepared: &Prepared, variant: &Variant) -> u32 {
        const UNTIL_KEPT: u32 = 3;
        let keeps = prepared.program.run_limit.is_some() && variant.mode == Mode::Run;
        if keeps { UNTIL_KEPT } else { 0 }
    }

    fn inspect_trace(&self, column: &mut ColumnResult, look: Look) {
        let [unspool] = &column.variant.observer[..] else {
            return;
        };
        match trace_file::inspect(Path::new(unspool), &self.traces(), look, self.time_limit) {
            Ok(facts) => {
                column.problems.extend(facts.problems.iter().cloned());
                column.traces.push(facts);
            }
            Err(error) => column.problems.push(format!("{error:#}")),
        }
    }

    /// One run. Its trace, if it leaves one, stays until the next run.
    fn run_once(
        &self,
        prepared: &Prepared,
        variant: &Variant,
        started: impl FnOnce(u32),
    ) -> anyhow::Result<(Outcome, Usage)> {
        self.clear_traces()?;
        let mut words = variant.prefix(&self.traces().join("trace.unspool"));
        words.extend(prepared.command.iter().cloned());
        let output = self.places.data.join("output");
        let errors = self.places.data.join("errors");
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(&self.places.data)
            // What depends on the user's surroundings would differ between machines.
            .env("LC_ALL", "C")
            .env("UNSPOOL_PERSISTENT_CACHE", self.kept_translations(prepared))
            .env("PYTHONHASHSEED", "0")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // A waiting OpenMP thread would spin, and CPU time would count the waiting.
            .env("OMP_WAIT_POLICY", "passive")
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?);
        let (end, usage) = run_to_end(&mut command, self.time_limit, started)
            .with_context(|| format!("cannot run {}", words[0].display()))?;
        Ok((
            Outcome {
                end,
                output: length_and_hash(File::open(&output)?)?,
            },
            usage,
        ))
    }

    /// Programs run as they do the first time, and a mode of its own keeps translations;
    /// applications run as they do day by day, with what the first round has kept, each in a
    /// folder of its own: some run as another user, who must own it.
    fn kept_translations(&self, prepared: &Prepared) -> PathBuf {
        let all = self.places.data.join("translations");
        match prepared.program.run_limit {
            Some(_) => all.join(prepared.program.name),
            None => PathBuf::from("off"),
        }
    }

    fn difference(&self, outcome: Outcome, expected: Outcome) -> Option<String> {
        if outcome.end != expected.end {
            Some(format!(
                "ended with {:?}: {}",
                outcome.end,
                self.last_words()
            ))
        } else if outcome.output != expected.output {
            Some("printed something else than natively".to_owned())
        } else {
            None
        }
    }

    /// The last line that the last run wrote to standard error.
    fn last_words(&self) -> String {
        let errors = std::fs::read(self.places.data.join("errors")).unwrap_or_default();
        let text = String::from_utf8_lossy(&errors);
        text.lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("(silent)")
            .to_owned()
    }

    fn traces(&self) -> PathBuf {
        self.places.data.join("traces")
    }

    /// Traces are deleted as soon as possible, so that the kernel need not write them out
    /// to disk while the next variant runs.
    fn clear_traces(&self) -> anyhow::Result<()> {
        let traces = self.traces();
        if traces.exists() {
            std::fs::remove_dir_all(&traces)
                .with_context(|| format!("cannot remove {}", traces.display()))?;
        }
        std::fs::create_dir_all(&traces)
            .with_context(|| format!("cannot make {}", traces.display()))
    }
}

/// Length and FNV-1a hash of a file, in little memory: this process's own size is the
/// least that the kernel reports for any child.
fn length_and_hash(mut file: impl Read) -> io::Result<(u64, u64)> {
    let mut buffer = vec![0; 1 << 16];
    let (mut length, mut hash) = (0, 0xcbf2_9ce4_8422_2325_u64);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((length, hash));
        }
        length += read as u64;
        for byte in &buffer[..read] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests;
