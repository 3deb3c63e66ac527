//! What was typed for the commands that run a program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::DetachChoice;

/// `unspool run`
#[derive(Debug, Args)]
#[command(override_usage = "unspool run [OPTIONS] [--] PROGRAM [ARGUMENT]...")]
pub(crate) struct RunArguments {
    /// What to do with the processes that the program starts
    #[arg(long, value_enum, default_value_t = ChildrenChoice::Follow)]
    pub(crate) children: ChildrenChoice,

    /// How much memory translated code may take; when it is full, translation starts anew
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512M")]
    pub(crate) code_cache: u64,

    /// Where to keep translations for later runs, which start faster then
    ///
    /// Without the option, or without a directory, in `unspool/translations` in XDG_CACHE_HOME or
    /// ~/.cache. UNSPOOL_PERSISTENT_CACHE names another directory, or is `off`. What lies there can
    /// be deleted at any time.
    #[arg(
        long,
        value_name = "DIRECTORY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "no_persistent_cache"
    )]
    pub(crate) persistent_cache: Option<OsString>,

    /// Keep no translations, and use none that were kept
    #[arg(long)]
    pub(crate) no_persistent_cache: bool,

    /// Wait for gdb before the first instruction, and let it debug the program
    ///
    /// At a port of this machine's loopback interface (:PORT; :0 picks one that is free), or at a
    /// Unix socket (a path that contains a slash). In gdb: target remote ADDRESS.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "persistent_cache")]
    pub(crate) gdb: Option<unspool_debugger::Address>,

    /// When it is let go.
    #[command(flatten)]
    pub(crate) detach: DetachChoice,

    /// The program and its arguments
    ///
    /// Options end at the program's name: what follows belongs to the program. A name
    /// without a slash is looked for in PATH.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

/// `unspool trace`
#[derive(Debug, Args)]
#[command(override_usage = "unspool trace [OPTIONS] [--] PROGRAM [ARGUMENT]...")]
pub(crate) struct TraceArguments {
    /// Where to write the trace: a file, a FIFO, or - for standard output
    ///
    /// Without it, the program's name with ".unspool" added, in the current directory. Where
    /// the trace takes standard output, what the program prints there goes to standard error.
    #[arg(short, long, value_name = "FILE", conflicts_with = "discard")]
    pub(crate) output: Option<PathBuf>,

    /// Record everything and keep nothing, to measure what recording costs
    #[arg(long)]
    pub(crate) discard: bool,

    /// Which order between threads to record
    #[arg(long, value_enum, default_value_t = OrderChoice::LineAtomic)]
    pub(crate) order: OrderChoice,

    /// Record only threads that registered themselves (unspool_register_thread)
    #[arg(long)]
    pub(crate) registered_only: bool,

    /// Record calls and returns of the functions that this file names, one in each line
    #[arg(long, value_name = "FILE")]
    pub(crate) functions: Option<PathBuf>,

    /// Record calls of OpenMP's runtimes and what they call, by which `unspool race` tells what of a
    /// program may run at the same time
    ///
    /// Where there is a runtime, calls of functions that allocate and free are recorded, too.
    #[arg(long)]
    pub(crate) openmp: bool,

    /// Record accesses only between the start and the end of a region of interest
    #[arg(long)]
    pub(crate) roi: bool,

    /// Bytes in each unit of ownership of the line-atomic order: a power of two
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub(crate) granule: u32,

    /// Number of locks for lines that many threads want at once; 1 serialises all of them
    #[arg(long, value_name = "N")]
    pub(crate) locks: Option<u32>,

    /// Accesses that a thread may buffer before it must write
    #[arg(long, value_name = "N")]
    pub(crate) buffer: Option<u32>,

    /// How far the clocks of threads may drift apart before the slower ones are moved forward
    ///
    /// Lets a merge of a trace that is still being written run in bounded memory, also while
    /// threads sleep. In the unit of the order's time: accesses (line-atomic), tickets, or
    /// ticks of the processor's clock. Looked at whenever a thread's buffer is full (--buffer).
    #[arg(long, value_name = "N")]
    pub(crate) max_skew: Option<u64>,

    /// Have threads wait now and then where they start, meet or make system calls
    ///
    /// They may then meet in orders in which they seldom would. The number decides where: another one
    /// gives other orders. Waits take at most half of the time.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) noise: Option<u64>,

    /// Let exports show failed compare-and-swaps as writes, as the hardware performs them
    #[arg(long)]
    pub(crate) failed_cas: bool,

    /// Run the program natively first, and say how much slower observing made it
    ///
    /// It runs twice then, with all that it does to files; what the native run prints is
    /// dropped. Standard input must be a file, a terminal or /dev/null.
    #[arg(long)]
    pub(crate) measure_slowdown: bool,

    /// End with status 125 if not everything was recorded, for want of room on the disk or else
    #[arg(long)]
    pub(crate) strict: bool,

    /// Record the values of all accesses too, so that `unspool verify` can check the order
    #[arg(long)]
    pub(crate) verify: bool,

    /// Record each executed instruction too, with its address and size, for simulators
    ///
    /// It costs the program next to nothing: what a piece of code executes is written once. But
    /// exports become several times as long, and times count instructions, not accesses alone.
    #[arg(long)]
    pub(crate) instructions: bool,

    /// Run one of the tools of `unspool tool list` with it, in the same run
    ///
    /// Trace and tool come out as they would alone. What the tool itself writes into the program's
    /// memory is not in the trace.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<OsString>,

    /// An argument for the tool; can be given several times
    #[arg(
        long,
        value_name = "ARGUMENT",
        allow_hyphen_values = true,
        requires = "tool"
    )]
    pub(crate) tool_argument: Vec<OsString>,

    /// What to do with the processes that the program starts
    #[arg(long, value_enum, default_value_t = ChildrenChoice::Follow)]
    pub(crate) children: ChildrenChoice,

    /// How much memory translated code may take; when it is full, translation starts anew
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512M")]
    pub(crate) code_cache: u64,

    /// When it is let go.
    #[command(flatten)]
    pub(crate) detach: DetachChoice,

    /// The program and its arguments
    ///
    /// Options end at the program's name: what follows belongs to the program. A name
    /// without a slash is looked for in PATH.
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

/// Bytes as people write them: a number, perhaps followed by K, M or G.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err("a size has one letter: K, M or G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "not a size, like 64M")?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

/// The values of `--order`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderChoice {
    /// None between threads: each thread's own order only
    None,
    /// Tickets at synchronisation: cheap, enough to tell what happened before what
    Ticket,
    /// Exact, for every two accesses to the same memory
    LineAtomic,
    /// The processor's clock, at synchronisation and buffer boundaries
    Timestamp,
}

/// The values of `--children`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChildrenChoice {
    /// Observe them too; when tracing, each into a file of its own
    Follow,
    /// Let them run natively, from the program that they execute on; nothing of them is recorded
    Leave,
}
