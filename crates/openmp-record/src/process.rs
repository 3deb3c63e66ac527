//! What a file says about one process.

use std::fmt;

use crate::ConstructKind;

/// Everything that was collected in one process. Times are ticks; see
/// [`ProcessRecord::nanoseconds`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessRecord {
    /// The process.
    pub process: u64,
    /// The parent of the process.
    pub parent: u64,
    /// The program's arguments, its name first.
    pub arguments: Vec<String>,
    /// When the process was first seen, in nanoseconds since 1970 (UTC).
    pub start_unix_ns: u64,
    /// When the process was first seen, by the monotonic clock, in nanoseconds.
    pub start_ns: u64,
    /// When the process was last seen, by the monotonic clock, in nanoseconds.
    pub last_ns: u64,
    /// When the process was first seen, in ticks.
    pub start_ticks: u64,
    /// When the process was last seen, in ticks.
    pub last_ticks: u64,
    /// Which clock the ticks are of.
    pub clock: ClockKind,
    /// Whether the process ended by itself.
    pub ended: bool,
    /// The largest number of threads in parallel regions at one time.
    pub peak_threads: u64,
    /// Processors that the process may use.
    pub processors: u64,
    /// Which runtimes took part.
    pub runtimes: Runtimes,
    /// The process's MPI rank.
    pub rank: Option<u64>,
    /// Processes in the MPI job, or 0.
    pub ranks: u64,
    /// Cancelled constructs.
    pub cancelled: u64,
    /// What threads did, by construct and context, in the order of their numbers.
    pub constructs: Vec<Construct>,
    /// What was loaded into the process.
    pub modules: Vec<Module>,
    /// Call paths by number: return addresses, the innermost first.
    pub paths: Vec<(u64, Vec<u64>)>,
    /// Names by number.
    pub names: Vec<(u64, String)>,
    /// Single passages through constructs, if they were asked for.
    pub spans: Vec<Span>,
    /// What the kernel counted of threads: by their number, as in [`Construct::thread`].
    pub threads: Vec<(u64, ThreadTime)>,
    /// What could not be collected or read.
    pub problems: Vec<Problem>,
}

impl ProcessRecord {
    /// Nanoseconds in so many ticks.
    #[must_use]
    pub fn nanoseconds(&self, ticks: u64) -> f64 {
        let span_ticks = self.last_ticks.saturating_sub(self.start_ticks);
        let span_ns = self.last_ns.saturating_sub(self.start_ns);
        match self.clock {
            ClockKind::Processor if span_ticks > 0 => {
                ticks as f64 * (span_ns as f64 / span_ticks as f64)
            }
            _ => ticks as f64,
        }
    }

    /// Nanoseconds from the first moment until the last.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.start_ns)
    }
}

/// Which clock ticks are of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockKind {
    /// The system's monotonic clock, in nanoseconds.
    #[default]
    Monotonic,
    /// The processor's time stamp counter.
    Processor,
}

/// Which runtimes took part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Runtimes {
    /// GNU libgomp.
    pub gomp: bool,
    /// A runtime with OMPT: LLVM's or Intel's.
    pub ompt: bool,
    /// MPI.
    pub mpi: bool,
}

/// What one thread did in one construct, in one context. [`crate::layout::construct`] says more
/// of each field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Construct {
    /// The construct's number in the file.
    pub number: u64,
    /// The thread: from 1, in the order in which the file got room for them.
    pub thread: u64,
    /// What the construct is.
    pub kind: ConstructKind,
    /// The number of the construct that encloses it in this thread.
    pub parent: Option<u64>,
    /// The address in the code where the program entered the runtime.
    pub address: u64,
    /// Which construct of its kind it is, depending on the kind.
    pub detail: u64,
    /// How often the construct was left, or was open when the process ended.
    pub count: u64,
    /// Ticks between entering and leaving.
    pub total: u64,
    /// Ticks between entering and leaving that were neither nested nor waited.
    pub own: u64,
    /// Ticks waited: before the block, or for a region at its end.
    pub wait: u64,
    /// The longest wait before the block or at the region's end, in ticks.
    pub wait_longest: u64,
    /// The longest passage, in ticks.
    pub longest: u64,
    /// The longest own part of a passage, in ticks.
    pub own_longest: u64,
    /// When the construct was first entered.
    pub first: u64,
    /// When the construct was last entered.
    pub last: u64,
    /// For a region: ticks from the fork until this thread started.
    pub startup: u64,
    /// For a task: by how many ticks it has made the longest chain of its region longer.
    pub chain: u64,
    /// For a region: its largest number of threads.
    pub team: u64,
    /// How often this thread was the last to arrive at the barrier or the region's end.
    pub last_arrivals: u64,
    /// Ticks from the synchronisation before until this thread arrived, where it was the last.
    pub path_total: u64,
    /// The part of `path_total` that was waited.
    pub path_wait: u64,
    /// Ticks from this thread's arrival until it went on, where it was the last.
    pub last_wait: u64,
    /// Iterations of all passages, or 0 where they are not known.
    pub iterations: u64,
    /// Of a loop: one of [`crate::layout::schedule`].
    pub schedule: u64,
    /// The part of `own`, in ticks, in which the thread was ready to run and had no processor.
    pub without_processor: u64,
    /// The part of the wait, in ticks, that is due to a lack of processors.
    pub wait_for_processor: u64,
    /// The part of `startup`, in ticks, in which the thread had no processor.
    pub startup_without_processor: u64,
    /// For a loop or sections, how many parts of it the runtime gave the thread; for the creation of
    /// tasks, how many the thread created.
    pub runtime_calls: u64,
    /// How many such calls were timed.
    pub runtime_timed: u64,
    /// How long those took in the runtime, in ticks.
    pub runtime_ticks: u64,
    /// Which of the threads that exist at one time executed it.
    pub slot: u64,
    /// The number of the call path that led here first, or 0.
    pub path: u64,
}

/// What the kernel counted of a thread. [`crate::layout::thread_block`] says more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// How long it was ready to run and had no processor, in nanoseconds.
    pub without_ns: u64,
    /// How often it stopped running to wait for something.
    pub stopped: u64,
    /// How often it was made to stop running.
    pub preempted: u64,
}

/// A module of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The module's first address.
    pub start: u64,
    /// The address behind the module's last one.
    pub end: u64,
    /// What was added to the addresses in the module's file.
    pub bias: u64,
    /// The module's file.
    pub path: String,
}

/// One passage through a construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The construct's number.
    pub construct: u64,
    /// When the construct was entered, in ticks.
    pub begin: u64,
    /// When the construct was left, in ticks.
    pub end: u64,
    /// Ticks waited before the construct's block.
    pub wait: u64,
}

/// Something that could not be collected or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// A part of the file makes no sense.
    Damaged {
        /// Which part.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The collector found no room for so many constructs or spans.
    WithoutRoom(u64),
    /// So many constructs were nested too deeply to be told apart.
    TooDeep(u64),
    /// So many constructs ended without having begun.
    Unmatched(u64),
    /// The process did not end in the ordinary way: what was open then was closed at the
    /// last moment at which it was seen.
    EndedAbruptly,
}

impl Problem {
    /// Whether what is counted happened at all.
    pub(crate) fn occurred(&self) -> bool {
        match self {
            Problem::WithoutRoom(count) | Problem::TooDeep(count) | Problem::Unmatched(count) => {
                *count > 0
            }
            Problem::Damaged { .. } | Problem::EndedAbruptly => true,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Damaged { place, what } => write!(formatter, "{place}: {what}"),
            Problem::WithoutRoom(count) => write!(
                formatter,
                "{count} constructs or spans found no room and are missing: is the disk full?"
            ),
            Problem::TooDeep(count) => write!(
                formatter,
                "{count} constructs were nested too deeply and are counted with what encloses them"
            ),
            Problem::Unmatched(count) => write!(
                formatter,
                "{count} constructs ended without having begun and were left out"
            ),
            Problem::EndedAbruptly => formatter.write_str(
                "the process did not end in the ordinary way; \
                 what was going on then counts until the last moment known",
            ),
        }
    }
}
