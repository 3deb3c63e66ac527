//! What is kept of a run: every process as one tree of constructs, with source lines.

mod build;
mod file;

use serde::{Deserialize, Serialize};
use unspool_openmp_record::Kind;

pub use file::OpenError;

/// More threads than a process can have; a record that speaks of more is damaged.
const MOST_THREADS: usize = 1 << 16;

/// A run of a program: all its processes that used OpenMP or MPI.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What was run.
    pub command: Vec<String>,
    /// Its processes, by MPI rank, then in the order in which they started.
    pub processes: Vec<Process>,
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The system's number for it.
    pub process: u64,
    /// Its program and arguments.
    pub arguments: Vec<String>,
    /// Its rank in an MPI job.
    pub rank: Option<u64>,
    /// When it started, by the monotonic clock of its machine.
    pub start_ns: u64,
    /// How long it lived.
    pub duration_ns: u64,
    /// The largest number of threads that existed in parallel regions at one time.
    pub threads: usize,
    /// Processors that it could use.
    pub processors: usize,
    /// The OpenMP runtimes that took part, and MPI.
    pub runtimes: Vec<String>,
    /// Cancelled constructs.
    pub cancelled: u64,
    /// Its constructs, each after the one that encloses it.
    pub constructs: Vec<Construct>,
    /// Single passages, if they were asked for.
    pub spans: Vec<Span>,
    /// What could not be collected or read.
    pub problems: Vec<String>,
}

/// A construct of the program in one context, for all threads together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Construct {
    /// What it is.
    #[serde(with = "kind_word")]
    pub kind: Kind,
    /// The construct that encloses it: its index, smaller than this one's.
    pub parent: Option<usize>,
    /// Which critical or lock, or the name of an MPI function or an interval.
    pub name: Option<String>,
    /// Where it is.
    pub location: Location,
    /// The calls that led there when it was first entered, the innermost first.
    pub call_path: Vec<Location>,
    /// The largest number of threads of a region.
    pub team: u64,
    /// Each thread's share.
    pub shares: Vec<Share>,
}

/// Where something is in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The source file.
    pub file: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u32>,
    /// The function.
    pub function: Option<String>,
    /// The program file.
    pub module: String,
    /// The address in it.
    pub offset: u64,
}

/// One thread's part in a construct. Fields as in
/// [`unspool_openmp_record::layout::construct`], in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The thread's place among all threads.
    pub thread: usize,
    /// Whether this thread forked the region.
    pub forked: bool,
    /// How often it passed.
    pub count: u64,
    /// Between entering and leaving.
    pub total_ns: u64,
    /// Of it, what was neither nested nor waited.
    pub own_ns: u64,
    /// Waited before the block, or at a region's end.
    pub wait_ns: u64,
    /// The longest wait.
    pub longest_wait_ns: u64,
    /// The longest passage.
    pub longest_ns: u64,
    /// The longest own part.
    pub longest_own_ns: u64,
    /// When it first entered, since the process started.
    pub first_ns: u64,
    /// When it last entered.
    pub last_ns: u64,
    /// From a region's fork until this thread started.
    pub startup_ns: u64,
    /// How often it was the last to arrive.
    pub last_arrivals: u64,
    /// When last: the time since the synchronisation before.
    pub path_ns: u64,
    /// Of it, waited.
    pub path_wait_ns: u64,
    /// When last: the time until it went on.
    pub last_wait_ns: u64,
    /// Iterations of all passages, of all threads; 0 where they are not known.
    pub iterations: u64,
}

/// One passage of a thread through a construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The construct's index.
    pub construct: usize,
    /// The thread's place.
    pub thread: usize,
    /// When it was entered, since the process started.
    pub begin_ns: u64,
    /// When it was left.
    pub end_ns: u64,
    /// Waited before the block.
    pub wait_ns: u64,
}

impl Location {
    /// `file:line`, with the file's own name, or what else is known.
    #[must_use]
    pub fn short(&self) -> String {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match (&self.file, self.line, &self.function) {
            (Some(file), Some(line), _) => format!("{}:{line}", name(file)),
            (Some(file), None, _) => name(file),
            (None, _, Some(function)) => format!("{function} in {}", name(&self.module)),
            _ if self.module.is_empty() => "unknown place".to_owned(),
            _ => format!("{}+{:#x}", name(&self.module), self.offset),
        }
    }
}

impl Share {
    /// All that this thread spent here itself.
    #[must_use]
    pub fn accounted_ns(&self) -> u64 {
        self.own_ns
            .saturating_add(self.wait_ns)
            .saturating_add(self.startup_ns)
    }
}

mod kind_word {
    //! Kinds are kept by their words.

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use unspool_openmp_record::Kind;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.word())
    }

    pub(super) fn deserialize<'text, D: Deserializer<'text>>(
        deserializer: D,
    ) -> Result<Kind, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = Kind::ALL.iter().find(|kind| kind.word() == word);
        found
            .copied()
            .ok_or_else(|| D::Error::custom(format!("no construct is called {word}")))
    }
}
