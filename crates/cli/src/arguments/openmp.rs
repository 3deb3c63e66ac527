//! What was typed for `unspool openmp`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `unspool openmp`
#[derive(Debug, Args)]
#[command(override_usage = "unspool openmp [OPTIONS] [--] PROGRAM [ARGUMENT]...
       unspool openmp [OPTIONS] FILE
       unspool openmp [--output SOURCE] [--leave-out KIND,...] instrument SOURCE...
       unspool openmp [--output LIBRARY] runtime")]
pub(crate) struct OpenmpArguments {
    /// Keep what was recorded in this file, to be read again later; for instrument and
    /// runtime, where to write
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Report in JSON; without --report, what the program itself prints goes to standard error
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the report to this file; standard output is the program's alone then
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// What to give characteristics of, besides the whole program
    #[arg(long, value_enum, default_value_t = GroupingChoice::Interval)]
    pub(crate) by: GroupingChoice,

    /// Rows of each table and list of the text; JSON has all
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    pub(crate) rows: usize,

    /// Record every single passage too, and write a time line for Perfetto or Chrome; the report
    /// then tells how many threads worked at once
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,

    /// How many passages the time line has at most: the longest
    ///
    /// Each is some 300 bytes of the file. A recording keeps all, and gives another time line when it is
    /// read.
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "timeline",
        default_value_t = 200_000
    )]
    pub(crate) timeline_passages: usize,

    /// Compare with an earlier run, which was kept in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,

    /// The file of context strings, for the options of the original analyser
    #[arg(long, value_name = "FILE")]
    pub(crate) strings: Option<PathBuf>,

    /// For instrument: what is no event, because it is short and happens often
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub(crate) leave_out: Vec<LeftOutChoice>,

    /// For instrument: procedures whose bodies and calls are no events
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) leave_out_procedures: Vec<String>,

    /// The program and its arguments, or a file that was kept by --output
    ///
    /// Or options of the original analyser, for traces in the current folder: -analize,
    /// -analize-with-traces[=NAME], -make-all-traces[=NAME], -make-trace FILE [event=N],
    /// after -main-thread=N, -no-events=N,..., -no-intervals=N,..., -intervals=N,...
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<OsString>,
}

/// What instrumented sources may do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LeftOutChoice {
    /// Calls, as statements or in assignments
    Calls,
    /// Bodies of procedures
    Functions,
    /// Loops that threads do not share
    Loops,
}

/// What an interval is.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GroupingChoice {
    /// What the program marks as an interval
    Interval,
    /// The parallel regions of each function
    Function,
    /// Each parallel region
    Construct,
}
