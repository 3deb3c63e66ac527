//! What was typed for the commands that read a trace.

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::LiveChoice;

/// `unspool export`
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The trace; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) input: PathBuf,

    /// What to convert it to
    #[arg(long, value_enum)]
    pub(crate) format: FormatChoice,

    /// Where to write; without it, or with -, to standard output
    ///
    /// Parquet makes several files, OUT.accesses.parquet, OUT.events.parquet and so on; without
    /// this option OUT is the trace's name.
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Where tsv and csv put what their lines do not say: the program, the order, the modules
    ///
    /// It is JSON. Without this option it goes to OUT.trace.json, or nowhere if the lines go to
    /// standard output, a pipe or a device.
    #[arg(long, value_name = "FILE")]
    pub(crate) description: Option<PathBuf>,

    /// Write all threads together in order of time, instead of as the file holds them
    #[arg(long)]
    pub(crate) ordered: bool,

    /// Go on reading a trace that is still being written, until its program ends
    ///
    /// In order of time, and as it comes: what is settled is written. For tsv, csv and json.
    #[arg(long)]
    pub(crate) follow: bool,

    /// Leave the times out (tsv only; the order then is the only thing that tells)
    #[arg(long, requires = "ordered")]
    pub(crate) without_time: bool,

    /// Make Parquet one folder, OUT, partitioned by process, thread and time (parquet only)
    ///
    /// Readers open only the files and row groups that a question is about. Each file is in order
    /// of time. OUT may be a data set already: the process of this trace is added to it.
    #[arg(long, requires = "output", conflicts_with = "ordered")]
    pub(crate) partitioned: bool,

    /// Say on standard error how far it has come, with a rate
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ProgressChoice::Auto)]
    pub(crate) progress: ProgressChoice,
}

/// The values of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatChoice {
    /// The text format of atomic-memory-trace
    Tsv,
    /// One line for each access and event, with the same columns in each
    Csv,
    /// One JSON object in each line
    Json,
    /// Parquet tables: accesses, events, modules, values
    Parquet,
    /// Nothing: decode everything, to measure how fast that is
    None,
}

/// The values of `--progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressChoice {
    /// After two seconds, on a terminal
    Auto,
    /// After two seconds; every ten, where standard error is no terminal
    Always,
    /// Nothing
    Never,
}

/// `unspool merge`
#[derive(Debug, Args)]
pub(crate) struct MergeArguments {
    /// The trace, binary or text with times; without it, or with -, standard input
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// Go on reading a trace that is still being written, until its program ends
    #[arg(long)]
    pub(crate) follow: bool,

    /// Keep the times, which are otherwise left out
    #[arg(long)]
    pub(crate) keep_time: bool,

    /// Where to put what the lines do not say: the program, the order, the modules
    ///
    /// It is JSON. Without this option it goes to OUT.trace.json, or nowhere if the lines go to
    /// standard output, a pipe or a device. Text traces have nothing to put there.
    #[arg(long, value_name = "FILE")]
    pub(crate) description: Option<PathBuf>,

    /// Where to write; without it, or with -, to standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,

    /// Say on standard error how far it has come, with a rate
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ProgressChoice::Auto)]
    pub(crate) progress: ProgressChoice,
}

/// `unspool show`
#[derive(Debug, Args)]
pub(crate) struct ShowArguments {
    /// The trace; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) input: PathBuf,

    /// Go on reading a trace that is still being written, until its program ends
    #[arg(long)]
    pub(crate) follow: bool,

    /// The first time to show; what lies far before it is not read
    #[arg(long, value_name = "TIME", default_value_t = 0)]
    pub(crate) from: u64,

    /// The last time to show; what lies far behind it is not read
    #[arg(long, value_name = "TIME", default_value_t = u64::MAX, hide_default_value = true)]
    pub(crate) to: u64,

    /// Show only these threads, by the trace's numbers
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pub(crate) thread: Vec<u32>,

    /// Show only what touches this memory: ADDRESS, ADDRESS+BYTES or FIRST-END, in decimal or 0x…
    #[arg(long, value_name = "MEMORY", value_parser = parse_memory)]
    pub(crate) address: Option<Range<u64>>,
}

/// `unspool info`
#[derive(Debug, Args)]
pub(crate) struct InfoArguments {
    /// The trace; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) input: PathBuf,

    /// Wait for the end of a trace that is still being written, and say meanwhile how far it is
    #[arg(long)]
    pub(crate) follow: bool,

    /// Whether to say how far it is, with --follow
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ProgressChoice::Auto)]
    pub(crate) progress: ProgressChoice,

    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Read only the index, not the contents: events are not counted by kind
    #[arg(long)]
    pub(crate) quick: bool,
}

/// `unspool verify`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "unspool verify [OPTIONS] FILE\n       unspool verify [OPTIONS] -- PROGRAM [ARGUMENT]..."
)]
pub(crate) struct VerifyArguments {
    /// The trace, recorded with --verify; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "program")]
    pub(crate) input: Option<PathBuf>,

    /// Go on reading a trace that is still being written, until its program ends
    #[arg(long)]
    pub(crate) follow: bool,

    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// How many mismatches to show; all of them are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) show: usize,

    /// How much may remain unchecked, in percent of the accesses, for the exit status to be 0
    ///
    /// What the kernel or other processes write at any time cannot be explained. Without this
    /// option the exit status is 2 where any access could not be checked.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, default_value_t = 0.0)]
    pub(crate) unchecked: f64,

    /// Say on standard error how far it has come, with a rate
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ProgressChoice::Auto)]
    pub(crate) progress: ProgressChoice,

    /// What to run instead.
    #[command(flatten)]
    pub(crate) live: LiveChoice,
}

/// A share as people write it.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse();
    number
        .ok()
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "not a number from 0 to 100".to_owned())
}

/// `unspool replay-increments`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "unspool replay-increments [OPTIONS] --address ADDRESS FILE\n       unspool replay-increments [OPTIONS] --address ADDRESS -- PROGRAM [ARGUMENT]..."
)]
pub(crate) struct ReplayIncrementsArguments {
    /// The trace; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "program")]
    pub(crate) input: Option<PathBuf>,

    /// Go on reading a trace that is still being written, until its program ends
    #[arg(long)]
    pub(crate) follow: bool,

    /// The counter's address, in decimal or as 0x…
    #[arg(long, value_parser = parse_address)]
    pub(crate) address: u64,

    /// The counter's value before its first increment
    #[arg(long, value_name = "VALUE", default_value_t = 0)]
    pub(crate) start: u64,

    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// What to run instead.
    #[command(flatten)]
    pub(crate) live: LiveChoice,
}

/// `unspool race`
#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "unspool race [OPTIONS] FILE\n       unspool race [OPTIONS] -- PROGRAM [ARGUMENT]..."
)]
pub(crate) struct RaceArguments {
    /// The trace, in the order line-atomic; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "program")]
    pub(crate) input: Option<PathBuf>,

    /// Go on reading a trace that is still being written, until its program ends
    #[arg(long)]
    pub(crate) follow: bool,

    /// Look for deadlocks and misuse of locks, too, and tell which locks threads held, with a program
    ///
    /// Calls of the functions that lock are followed, which costs time at each. A trace that was
    /// recorded with them (--record) is looked at for both without this option.
    #[arg(long, conflicts_with = "input")]
    pub(crate) locks: bool,

    /// Tell, too, of races and deadlocks that this run has not shown, but another order of the same
    /// events does
    ///
    /// What is told so is certain: there is a schedule in which every thread reads what it has read, and
    /// does what it has done, up to the race or the deadlock. Only the sections of locks that functions
    /// take and release are moved, so calls of those are followed, as with --locks. It takes a quarter of
    /// --memory more, and some times the time.
    #[arg(long)]
    pub(crate) predict: bool,

    /// List the places where threads took the same lock one behind the other in one order only
    ///
    /// What would go wrong in the other order has had no chance in this run. Calls of the functions that
    /// lock are followed, as with --locks.
    #[arg(long)]
    pub(crate) coverage: bool,

    /// Tell of races on the heap in which block they are, and where it was allocated, with a program
    ///
    /// Calls of the functions that allocate and free are followed, which costs time at each. A trace
    /// that was recorded with them (--record) is looked at for both without this option.
    #[arg(long, conflicts_with = "input")]
    pub(crate) heap: bool,

    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Write SARIF 2.1.0 into this file, too: the form in which tools for code review take findings
    #[arg(long, value_name = "FILE")]
    pub(crate) sarif: Option<PathBuf>,

    /// Print lines, too, from which a service shows races beside the source
    #[arg(long, value_name = "SERVICE", value_enum, conflicts_with = "json")]
    pub(crate) annotations: Option<AnnotationChoice>,

    /// How many races to show, those of most occurrences first; all of them are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) show: usize,

    /// The exit status where a race was found and a program that was run ended with 0
    #[arg(long, value_name = "N", default_value_t = crate::exit_status::RACES_FOUND)]
    pub(crate) exit_status: u8,

    /// Leave out the races that a line of this file describes; can be given several times
    ///
    /// A line is `race:PATTERN`, as ThreadSanitizer has them: the pattern is looked for in the
    /// function, the source file and the module of both accesses, and in the variable. * stands for
    /// any text, ^ for the beginning and $ for the end. Lines that begin with # say nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) suppressions: Vec<PathBuf>,

    /// Look at a program of OpenMP as at any other: what one thread executes is in the order in which
    /// it did, and what the runtime does itself orders threads
    #[arg(long)]
    pub(crate) no_openmp: bool,

    /// Show what unspool's own suppressions leave out, too
    #[arg(long)]
    pub(crate) no_default_suppressions: bool,

    /// How much memory the analysis may take: where it would take more, it forgets what it has seen
    #[arg(long, value_name = "SIZE", value_parser = super::observing::parse_size, default_value = "4G")]
    pub(crate) memory: u64,

    /// Say on standard error how far it has come, with a rate
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ProgressChoice::Auto)]
    pub(crate) progress: ProgressChoice,

    /// What to run instead.
    #[command(flatten)]
    pub(crate) live: LiveChoice,
}

/// The values of `--annotations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnnotationChoice {
    /// GitHub's: `::warning file=FILE,line=LINE::MESSAGE`
    Github,
}

/// A range of memory as people write it; the byte at its end does not belong to it.
fn parse_memory(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| parse_address(text).map_err(|error| format!("{text}: {error}"));
    let range = if let Some((first, end)) = text.split_once('-') {
        number(first)?..number(end)?
    } else {
        let (first, bytes) = text.split_once('+').unwrap_or((text, "1"));
        let first = number(first)?;
        first..first.saturating_add(number(bytes)?)
    };
    match range.is_empty() {
        true => Err("this has no bytes".to_owned()),
        false => Ok(range),
    }
}

/// An address as people write it.
fn parse_address(text: &str) -> Result<u64, std::num::ParseIntError> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}
