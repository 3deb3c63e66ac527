//! What was typed for `unspool profile`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use unspool_profile::Metric;
use unspool_sampler::EventChoice;

/// `unspool profile`
#[derive(Debug, Args)]
#[command(override_usage = "unspool profile [OPTIONS] [--] PROGRAM [ARGUMENT]...
       unspool profile [OPTIONS] --pid PID
       unspool profile [OPTIONS] FILE...")]
pub(crate) struct ProfileArguments {
    /// Keep what was recorded in this file, to be read again later; in its name, %r is the rank in an MPI
    /// job, %h the machine's name, and %% a percent sign
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// As a process of an MPI job, put the recordings of all ranks together in the file after -o: those that
    /// they make now, or files, of which each adds up some; the first rank reports
    #[arg(long, requires = "output", conflicts_with = "pid")]
    pub(crate) by_ranks: bool,

    /// Sample a process that runs already, until it ends, --duration is over or Ctrl-C is pressed
    #[arg(
        short,
        long,
        value_name = "PID",
        value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with = "words"
    )]
    pub(crate) pid: Option<u32>,

    /// Keep only samples from so many seconds after the start on
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    pub(crate) delay: Duration,

    /// Keep only samples of so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,

    /// Keep only samples of regions of interest, which the program tells by unspool_start_region and
    /// unspool_end_region (unspool.h) or the crate unspool-annotate; a library is loaded into it
    #[arg(long, conflicts_with = "pid")]
    pub(crate) roi: bool,

    /// What takes the samples; without this, the kernel, or where it is forbidden, timers
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<BackendChoice>,

    /// Which time of threads to sample; time in which they wait needs timers
    #[arg(long, value_enum, value_name = "CLOCK", default_value = "cpu")]
    pub(crate) clock: ClockChoice,

    /// Note where threads wait, too, and for how long: the report has it behind the rest. The kernel must
    /// allow it (kernel.perf_event_paranoid at most 1, or root)
    #[arg(long, conflicts_with = "clock")]
    pub(crate) off_cpu: bool,

    /// Sample where this happens, beside time: NAME, NAME@PERIOD for a sample each time that it has happened
    /// so often, or NAME@fHZ for about so many in a second, if it is one of the processor; several are
    /// separated by commas. The report has them behind the rest
    ///
    /// Of the processor, where it has counters: cycles, instructions, branches, branch-misses,
    /// cache-references, cache-misses, stalled-cycles-frontend and the like, those of caches
    /// (L1-dcache-load-misses, LLC-loads, dTLB-load-misses), and rHEX by its manual's number. Of the kernel:
    /// page-faults, minor-faults, major-faults, context-switches, cpu-migrations, alignment-faults.
    #[arg(
        short,
        long,
        value_name = "EVENT",
        value_delimiter = ',',
        conflicts_with = "clock"
    )]
    pub(crate) event: Vec<EventChoice>,

    /// Of what report, exports and comparisons are, if the recording has more than CPU time: cpu, off-cpu,
    /// or an event; without this, the report is of all and the others of CPU time
    #[arg(long, value_name = "WHAT")]
    pub(crate) show: Option<ShowChoice>,

    /// How many samples to take in a second of a thread's time
    #[arg(
        long,
        value_name = "HZ",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub(crate) frequency: u32,

    /// How much of each stack to look at, in bytes: deep recursion needs more
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 16_384,
        value_parser = clap::value_parser!(u32).range(512..=60_000)
    )]
    pub(crate) stack_bytes: u32,

    /// Leave the threads of OpenMP's runtime where they begin, and the runtime between functions that it calls
    /// for the program; without this, what they execute is told where the source has it
    #[arg(long)]
    pub(crate) no_openmp: bool,

    /// What to show; several are separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "flat,hot-path,top-down,bottom-up",
        conflicts_with_all = ["json", "folded"]
    )]
    pub(crate) view: Vec<ViewChoice>,

    /// Show the code of this function behind the rest: its instructions and lines with the time at
    /// each; may be given several times
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["json", "folded", "baseline"])]
    pub(crate) annotate: Vec<String>,

    /// Show behind the rest, or in JSON too, when each thread spent its time and in which function most
    #[arg(long, conflicts_with_all = ["folded", "baseline"])]
    pub(crate) time_line: bool,

    /// Compute a figure of each function, call path and loop, NAME=FORMULA; may be given several times
    ///
    /// A formula is about self and total (seconds); of functions also mean, least, most and deviation of
    /// the threads' self time; and of the run: run (all that was sampled), elapsed, user and system in
    /// seconds, and threads. In braces it is about what is sampled beside time: {EVENT}, {off-cpu}, or with
    /// what was called {total EVENT}. It has + - * / ^, parentheses, and functions such as min(a, b), max(a, b),
    /// sqrt(a), log2(a).
    #[arg(long, value_name = "NAME=FORMULA", conflicts_with_all = ["folded", "baseline"])]
    pub(crate) metric: Vec<Metric>,

    /// Report in JSON; without --report, what the program itself prints goes to standard error
    #[arg(long, conflicts_with = "folded")]
    pub(crate) json: bool,

    /// Report as collapsed stacks, which programs that draw flame graphs read; without --report,
    /// what the program itself prints goes to standard error
    #[arg(long)]
    pub(crate) folded: bool,

    /// Compare with a smaller run, of which this file is the recording: what is lost by call path, as
    /// --scaling expects it; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with = "folded")]
    pub(crate) baseline: Vec<PathBuf>,

    /// What --baseline expects of the larger run
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        default_value = "strong",
        requires = "baseline"
    )]
    pub(crate) scaling: ScalingChoice,

    /// Write the report to this file; standard output is the program's alone then
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Draw a flame graph into this file too (SVG): the time of each call path is the width of its
    /// bar
    #[arg(long, value_name = "FILE")]
    pub(crate) flame_graph: Option<PathBuf>,

    /// Write the calling context tree for Hatchet to this file too (Python:
    /// GraphFrame.from_literal(json.load(open(FILE))))
    #[arg(long, value_name = "FILE")]
    pub(crate) hatchet: Option<PathBuf>,

    /// Write the samples for pprof to this file too (profile.proto, compressed)
    #[arg(long, value_name = "FILE")]
    pub(crate) pprof: Option<PathBuf>,

    /// Write everything as a database of HPCToolkit into this directory too (hpcviewer, Hatchet's
    /// GraphFrame.from_hpctoolkit)
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) hpctoolkit: Option<PathBuf>,

    /// Write samples and waits for Perfetto to this file too (ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,

    /// Write the samples for the Firefox Profiler to this file too (profiler.firefox.com)
    #[arg(long, value_name = "FILE")]
    pub(crate) firefox: Option<PathBuf>,

    /// Write the samples for speedscope to this file too (speedscope.app)
    #[arg(long, value_name = "FILE")]
    pub(crate) speedscope: Option<PathBuf>,

    /// The program and its arguments; or a file that was kept by --output, several of which are added up;
    /// or one of perf record
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<OsString>,
}

/// A time in seconds, with a fraction or without.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

/// What takes samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendChoice {
    /// The kernel (perf_event_open); nothing is loaded into the program
    Perf,
    /// Timers of the program's threads, by a library that is loaded into it
    Timer,
}

/// A time of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockChoice {
    /// In which they run
    Cpu,
    /// In which they run or wait
    Wall,
}

/// What of a recording is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShowChoice {
    /// Where threads spent CPU time.
    Cpu,
    /// Where they waited.
    OffCpu,
    /// Where an event of this name happened.
    Event(String),
}

impl From<&str> for ShowChoice {
    fn from(word: &str) -> ShowChoice {
        match word {
            "cpu" => ShowChoice::Cpu,
            "off-cpu" => ShowChoice::OffCpu,
            event => ShowChoice::Event(event.to_owned()),
        }
    }
}

/// What is expected of a larger run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScalingChoice {
    /// It does the same work: all threads together take the same time
    Strong,
    /// Each thread, or rank of an MPI job, does the same work: each takes the same time
    Weak,
}

/// What is shown of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewChoice {
    /// Functions, lines of the source and threads
    Flat,
    /// Where most of the time is, from above, until it divides
    HotPath,
    /// What each function called
    TopDown,
    /// What each function was called by
    BottomUp,
}
