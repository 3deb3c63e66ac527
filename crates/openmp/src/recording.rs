//! What is kept of a run: every process as one tree of constructs, with source lines.

mod build;
mod file;

use serde::{Deserialize, Serialize};
use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::schedule;

use crate::location::Location;

pub use file::OpenError;

/// More threads than a process can have; a record that speaks of more is damaged.
const MOST_THREADS: usize = 1 << 16;

/// A run of a program: all its processes that used OpenMP or MPI.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What was run.
    pub command: Vec<String>,
    /// When it began, in nanoseconds since 1970 (UTC); 0 where that is not known.
    #[serde(default)]
    pub start_unix_ns: u64,
    /// What else ran on the machine meanwhile; nothing where that is not known.
    #[serde(default)]
    pub others: Option<Others>,
    /// The processes that used OpenMP or MPI, by MPI rank, then in the order in which they started.
    pub processes: Vec<Process>,
}

/// What ran on the machine beside the program, while the program did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    /// How long processors ran it, all together.
    pub ran_ns: u64,
    /// The process that ran longest of those that are still there.
    pub most: Option<Program>,
}

/// A process beside the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The system's number for it.
    pub process: u32,
    /// How long processors ran it meanwhile.
    pub ran_ns: u64,
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The system's number for it.
    pub process: u64,
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// The process's rank in an MPI job.
    pub rank: Option<u64>,
    /// When the process started, by the monotonic clock of its machine.
    pub start_ns: u64,
    /// How long the process lived.
    pub duration_ns: u64,
    /// The largest number of threads that existed in parallel regions at one time.
    pub threads: usize,
    /// Processors that the process could use.
    pub processors: usize,
    /// The OpenMP runtimes that took part, and MPI.
    pub runtimes: Vec<String>,
    /// Cancelled constructs.
    pub cancelled: u64,
    /// What the kernel counted of the threads, by their numbers; nothing in older recordings.
    #[serde(default)]
    pub thread_times: Vec<ThreadTime>,
    /// The constructs of the process, each after the one that encloses it.
    pub constructs: Vec<Construct>,
    /// Single passages through constructs, if they were asked for.
    pub spans: Vec<Span>,
    /// What could not be collected or read.
    pub problems: Vec<String>,
}

/// A construct of the program in one context, for all threads together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Construct {
    /// What the construct is.
    #[serde(with = "kind_word")]
    pub kind: ConstructKind,
    /// The index of the construct that encloses this one, and is smaller than this one's.
    pub parent: Option<usize>,
    /// Which critical or lock, or the name of an MPI function or an interval.
    pub name: Option<String>,
    /// Where the construct is in the program.
    pub location: Location,
    /// The calls that led to the construct when it was first entered, the innermost first.
    pub call_path: Vec<Location>,
    /// For a region within a region: which thread forks it. Those that other threads of the outer one
    /// fork are constructs of their own. Nothing in older recordings.
    #[serde(default)]
    pub forked_by: Option<usize>,
    /// The largest number of threads of a region.
    pub team: u64,
    /// The schedule of a loop; nothing where the runtime is not told, and in older recordings.
    #[serde(default)]
    pub schedule: Option<Schedule>,
    /// What each thread did in the construct.
    pub shares: Vec<Share>,
}

impl Construct {
    /// Whether it is a call that starts MPI or ends it.
    pub(crate) fn starts_or_ends_mpi(&self) -> bool {
        const CALLS: [&str; 3] = ["mpi_init", "mpi_init_thread", "mpi_finalize"];
        // Fortran compilers write names in lower case, and underscores behind them.
        let name = self.name.as_deref().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        self.kind == ConstructKind::Mpi && CALLS.contains(&name.trim_end_matches('_'))
    }
}

/// How the iterations of a loop are given to threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// All at once, before any is executed.
    Static,
    /// Parts of one size, as threads need them.
    Dynamic,
    /// Parts as threads need them, the largest first.
    Guided,
    /// As the runtime chooses.
    Auto,
}

impl Schedule {
    /// From [`schedule`]'s number.
    fn from_number(number: u64) -> Option<Schedule> {
        Some(match number {
            schedule::STATIC => Schedule::Static,
            schedule::DYNAMIC => Schedule::Dynamic,
            schedule::GUIDED => Schedule::Guided,
            schedule::AUTO => Schedule::Auto,
            _ => return None,
        })
    }
}

/// One thread's part in a construct. Times are nanoseconds;
/// [`unspool_openmp_record::layout::construct`] says more of each field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The thread: its number among all that exist at one time.
    pub thread: usize,
    /// Whether this thread forked the region.
    pub forked: bool,
    /// How often the thread passed the construct.
    pub count: u64,
    /// Time between entering and leaving.
    pub total_ns: u64,
    /// Time between entering and leaving that was neither nested nor waited.
    pub own_ns: u64,
    /// Time waited before the block, or at a region's end.
    pub wait_ns: u64,
    /// The longest wait before the block, or at a region's end.
    pub longest_wait_ns: u64,
    /// The longest passage.
    pub longest_ns: u64,
    /// The longest own part of a passage.
    pub longest_own_ns: u64,
    /// When the thread first entered, since the process started.
    pub first_ns: u64,
    /// When the thread last entered, since the process started.
    pub last_ns: u64,
    /// Time from a region's fork until this thread started.
    pub startup_ns: u64,
    /// How often the thread was the last to arrive.
    pub last_arrivals: u64,
    /// Time from the synchronisation before until the thread arrived, where it was the last.
    pub path_ns: u64,
    /// The part of `path_ns` that was waited.
    pub path_wait_ns: u64,
    /// Time from the thread's arrival until it went on, where it was the last.
    pub last_wait_ns: u64,
    /// Iterations of all passages, of all threads; 0 where they are not known.
    pub iterations: u64,
    /// Time between entering and leaving in which the thread, or the one that it waited for, was
    /// ready to run and had no processor. It is no part of `own_ns`.
    #[serde(default)]
    pub processor_ns: u64,
    /// The same before the block, at a region's end, or before the thread started. It is no part of
    /// `wait_ns` and `startup_ns`.
    #[serde(default)]
    pub processor_wait_ns: u64,
    /// How many parts of a loop or of sections the runtime gave the thread; how many tasks it created.
    #[serde(default)]
    pub runtime_calls: u64,
    /// How long the runtime itself worked for the thread: fetching those parts, creating those tasks,
    /// combining what a reduction has of each thread. It is no part of any `own_ns`.
    #[serde(default)]
    pub runtime_ns: u64,
    /// Of tasks: by how much they have made the longest chain of their region longer, of tasks each of
    /// which depends on the one before.
    #[serde(default)]
    pub chain_ns: u64,
}

/// What the kernel counted of a thread, from when it first used OpenMP; of the process's first
/// thread, from the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// The thread: its number among all that exist at one time.
    pub thread: usize,
    /// How long it ran.
    pub ran_ns: u64,
    /// How long it was ready to run and had no processor.
    pub without_ns: u64,
    /// How often it stopped running to wait for something.
    pub stopped: u64,
    /// How often it was made to stop running.
    pub preempted: u64,
}

/// One passage of a thread through a construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The construct's index.
    pub construct: usize,
    /// The thread: its number among all that exist at one time.
    pub thread: usize,
    /// When the construct was entered, since the process started.
    pub begin_ns: u64,
    /// When the construct was left, since the process started.
    pub end_ns: u64,
    /// Time waited before the construct's block.
    pub wait_ns: u64,
}

impl Share {
    /// All time for which a processor was lacking.
    #[must_use]
    pub fn lacking_processor_ns(&self) -> u64 {
        self.processor_ns.saturating_add(self.processor_wait_ns)
    }

    /// All that this thread spent here itself.
    #[must_use]
    pub fn accounted_ns(&self) -> u64 {
        self.own_ns
            .saturating_add(self.wait_ns)
            .saturating_add(self.startup_ns)
            .saturating_add(self.lacking_processor_ns())
            .saturating_add(self.runtime_ns)
    }
}

mod kind_word {
    //! Kinds are kept by their words.

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use unspool_openmp_record::ConstructKind;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(
        kind: &ConstructKind,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.word())
    }

    pub(super) fn deserialize<'text, D: Deserializer<'text>>(
        deserializer: D,
    ) -> Result<ConstructKind, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = ConstructKind::ALL.iter().find(|kind| kind.word() == word);
        found
            .copied()
            .ok_or_else(|| D::Error::custom(format!("no construct is called {word}")))
    }
}
