//! Has a runner execute cases, natively or observed.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::case::Case;
use crate::layout::CASE_LIMIT;
use crate::place::place;
use crate::record::{CaseRecord, DIED, FullState, Header, NOT_RUN, Outcome, REFUSED};
use crate::runner::{self, Request};
use crate::state;
use crate::ways::{OBSERVED_PATIENCE_US, Way};

/// What who observes a case says when it refuses to run it.
const REFUSAL: &str = "cannot be run under observation";
/// After so many deaths, the rest of a file is left.
const DEATH_LIMIT: usize = 50;

/// Executes files of cases in a folder of its own.
pub struct Executor {
    folder: tempfile::TempDir,
    runner: PathBuf,
    pools: Vec<u8>,
    /// The one processor that all runners run on.
    processor: usize,
    /// How many files have been written.
    files: Cell<usize>,
}

/// Cases in a file.
pub struct Batch<'a> {
    executor: &'a Executor,
    file: PathBuf,
    records: Vec<CaseRecord>,
    header: Header,
}

/// What a run gave.
pub struct Results {
    /// One for each case.
    pub outcomes: Vec<Outcome>,
    /// What the runner, or who observed it, said when it died.
    pub last_words: Vec<(usize, String)>,
}

impl Executor {
    /// An executor whose runner is this executable.
    ///
    /// # Errors
    /// If there is no room for temporary files.
    pub fn new() -> anyhow::Result<Executor> {
        let mut pools = Vec::new();
        for number in 0..state::VECTOR_STATES {
            pools.extend(state::vectors(number));
        }
        for number in 0..state::IMAGES {
            pools.extend(state::image(number));
        }
        Ok(Executor {
            folder: tempfile::tempdir()?,
            runner: std::env::current_exe()?,
            pools,
            // SAFETY: sched_getcpu has no preconditions.
            processor: unsafe { libc::sched_getcpu() }.max(0) as usize,
            files: Cell::new(0),
        })
    }

    /// Writes cases into a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn batch(&self, cases: &[Case], writable: bool) -> anyhow::Result<Batch<'_>> {
        ensure!(
            cases.len() <= CASE_LIMIT,
            "{} cases are too many",
            cases.len()
        );
        let header = Header {
            cases: cases.len() as u64,
            vectors: state::VECTOR_STATES,
            images: state::IMAGES,
            components: state::components(),
            writable: u64::from(writable),
            separate: 0,
            reserved: [0; 2],
        };
        let records = cases
            .iter()
            .enumerate()
            .map(|(index, case)| place(case, index))
            .collect();
        self.files.set(self.files.get() + 1);
        let batch = Batch {
            executor: self,
            file: self
                .folder
                .path()
                .join(format!("cases-{}", self.files.get())),
            records,
            header,
        };
        batch.write()?;
        Ok(batch)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // The folder goes at the end at the latest.
        let _left_behind = std::fs::remove_file(&self.file);
    }
}

impl Batch<'_> {
    fn write(&self) -> anyhow::Result<()> {
        let mut file = BufWriter::new(File::create(&self.file)?);
        file.write_all(self.header.as_bytes())?;
        file.write_all(&self.executor.pools)?;
        file.write_all(self.records.as_bytes())?;
        file.flush()?;
        Ok(())
    }

    /// Gives each place private data of its own from now on, whose values a trace can explain.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn separate(&mut self) -> anyhow::Result<()> {
        self.header.separate = 1;
        self.write()
    }

    /// Records all cases with all values, and asks whether what was recorded explains them.
    /// `None`: it does; else what is said of it.
    ///
    /// # Errors
    /// If something cannot be started, or a case kills the runner.
    pub fn verify_recorded(&self, unspool: &Path) -> anyhow::Result<Option<String>> {
        let (trace, results) = self.trace(unspool, &["--verify"])?;
        if let Some((_, words)) = results.last_words.first() {
            bail!("a case kills the runner: {words}");
        }
        let output = Command::new(unspool)
            .args(["verify", "--unchecked", "100"])
            .arg(&trace)
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((!output.status.success()).then_some(said))
    }

    /// Records all cases in this order. Gives the trace, and the cases that `unspool` refuses,
    /// which are left out.
    ///
    /// # Errors
    /// If something cannot be started, or a case kills the runner.
    pub fn record_to_trace(
        &mut self,
        unspool: &Path,
        order: &str,
    ) -> anyhow::Result<(PathBuf, Vec<usize>)> {
        let mut refused = Vec::new();
        loop {
            let (trace, results) = self.trace(unspool, &["--order", order])?;
            if let Some((_, words)) = results.last_words.first() {
                bail!("a case kills the runner: {words}");
            }
            let outcomes = results.outcomes.iter().enumerate();
            let now: Vec<usize> = outcomes
                .filter(|(_, outcome)| outcome.status == REFUSED)
                .map(|(index, _)| index)
                .collect();
            if now.is_empty() {
                return Ok((trace, refused));
            }
            // What came before the refusal was in a trace that is overwritten.
            self.leave_out(now.iter().copied())?;
            refused.extend(now);
        }
    }

    fn trace(&self, unspool: &Path, options: &[&str]) -> anyhow::Result<(PathBuf, Results)> {
        let trace = self.executor.folder.path().join("recorded.unspool");
        let mut prefix = vec![unspool.as_os_str().to_owned(), "trace".into()];
        prefix.extend(options.iter().map(OsString::from));
        prefix.extend(["-o".into(), trace.clone().into_os_string(), "--".into()]);
        let way = Way {
            name: "recorded".to_owned(),
            prefix,
            instrumented: true,
            patience_us: OBSERVED_PATIENCE_US,
            ..Way::native()
        };
        let results = self.run(&way)?;
        Ok((trace, results))
    }

    /// How many cases there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Leaves these cases out of later runs.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn leave_out(&mut self, indexes: impl IntoIterator<Item = usize>) -> anyhow::Result<()> {
        for index in indexes {
            self.records[index].length = 0;
        }
        self.write()
    }

    /// The record of a case.
    #[must_use]
    pub fn record(&self, index: usize) -> &CaseRecord {
        &self.records[index]
    }

    /// Runs all cases.
    ///
    /// # Errors
    /// If the runner cannot be started, or dies without doing anything.
    pub fn run(&self, way: &Way) -> anyhow::Result<Results> {
        self.run_with(way, None)
    }

    /// Runs all cases, and gives the states that they end with.
    ///
    /// # Errors
    /// As [`Batch::run`].
    pub fn run_fully(&self, way: &Way) -> anyhow::Result<(Results, Vec<FullState>)> {
        let path = self.executor.folder.path().join("states");
        let size = self.records.len() * size_of::<FullState>();
        File::create(&path)?.set_len(size as u64)?;
        let results = self.run_with(way, Some(&path))?;
        let mut states = FullState::new_vec_zeroed(self.records.len())
            .map_err(|_| anyhow::anyhow!("no memory for states"))?;
        states
            .as_mut_bytes()
            .copy_from_slice(&std::fs::read(&path)?);
        Ok((results, states))
    }

    fn run_with(&self, way: &Way, states: Option<&Path>) -> anyhow::Result<Results> {
        let request = Request {
            cases: self.file.clone(),
            outcomes: self.executor.folder.path().join("outcomes"),
            states: states.map(Path::to_owned),
            interrupt_us: way.interrupt_us,
            patience_us: way.patience_us,
            processor: self.executor.processor,
        };
        let mut outcomes = Outcome::new_vec_zeroed(self.records.len())
            .map_err(|_| anyhow::anyhow!("no memory for outcomes"))?;
        let mut last_words = Vec::new();
        loop {
            std::fs::write(&request.outcomes, outcomes.as_bytes())?;
            let said = self.start(way, &request)?;
            let bytes = std::fs::read(&request.outcomes)?;
            outcomes = <[Outcome]>::ref_from_bytes(&bytes)
                .map_err(|_| anyhow::anyhow!("the file of outcomes was cut off"))?
                .to_vec();
            let Some(said) = said else {
                return Ok(Results {
                    outcomes,
                    last_words,
                });
            };
            // Whatever case was not reached first is the one that killed the runner.
            let Some(died) = (0..outcomes.len()).find(|&index| {
                self.records[index].length != 0 && outcomes[index].status == NOT_RUN
            }) else {
                bail!(
                    "the runner ({}) failed after its last case: {said}",
                    way.name
                );
            };
            if said.contains(REFUSAL) {
                outcomes[died].status = REFUSED;
                continue;
            }
            outcomes[died].status = DIED;
            last_words.push((died, said));
            if last_words.len() >= DEATH_LIMIT {
                return Ok(Results {
                    outcomes,
                    last_words,
                });
            }
        }
    }

    /// Runs the runner once. Gives what it said if it failed.
    fn start(&self, way: &Way, request: &Request) -> anyhow::Result<Option<String>> {
        let mut words = way.prefix.clone();
        words.push(self.executor.runner.clone().into_os_string());
        words.push(runner::COMMAND.into());
        words.extend(request.arguments());
        let errors = self.executor.folder.path().join("errors");
        let status = Command::new(&words[0])
            .args(&words[1..])
            .env("UNSPOOL_PERSISTENT_CACHE", "off")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors)?)
            .status()
            .with_context(|| format!("cannot start {}", words[0].display()))?;
        if status.success() {
            return Ok(None);
        }
        // The first lines say it; a backtrace may follow.
        let said = String::from_utf8_lossy(&std::fs::read(&errors)?)
            .lines()
            .filter(|line| !line.is_empty())
            .take(3)
            .collect::<Vec<_>>()
            .join("\n");
        Ok(Some(format!("{status}: {said}")))
    }
}
