//! What was typed for an analysis that is to be made while a program runs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::observing::parse_size;
use super::{ChildrenChoice, OrderChoice};

/// A program to be run, instead of a trace to be read.
#[derive(Debug, Clone, Args)]
pub(crate) struct LiveChoice {
    /// Which order between threads to record, with a program
    #[arg(long, value_enum, conflicts_with = "input", default_value_t = OrderChoice::LineAtomic)]
    pub(crate) order: OrderChoice,

    /// Bytes in each unit of ownership of the line-atomic order, with a program: a power of two
    #[arg(
        long,
        value_name = "BYTES",
        conflicts_with = "input",
        default_value_t = 64
    )]
    pub(crate) granule: u32,

    /// How far the clocks of threads may drift apart, with a program; bounds the memory that it takes
    ///
    /// In the unit of the order's time, as for `unspool trace`. Without this option about a million
    /// accesses, 65,536 tickets, or a tenth of a second.
    #[arg(long, value_name = "N", conflicts_with = "input")]
    pub(crate) max_skew: Option<u64>,

    /// How much of the records may wait for a thread that is behind, with a program
    ///
    /// Threads are kept close, but one that cannot be asked where it is holds up all others. Where
    /// more would wait the answer is about what happened until then, and says so.
    #[arg(long, value_name = "SIZE", conflicts_with = "input", value_parser = parse_size, default_value = "2G")]
    pub(crate) max_waiting: u64,

    /// What to do with the processes that the program starts; each that is followed has an answer
    #[arg(long, value_enum, conflicts_with = "input", default_value_t = ChildrenChoice::Follow)]
    pub(crate) children: ChildrenChoice,

    /// Have threads wait now and then where they start, meet or make system calls, with a program
    ///
    /// They may then meet in orders in which they seldom would, and show what hides there. The number
    /// decides where: another one gives other orders. Waits take at most half of the time.
    #[arg(long, value_name = "NUMBER", conflicts_with = "input", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) noise: Option<u64>,

    /// Where to write the answer about a program; without it, to standard error when it ends
    ///
    /// A process that the program starts adds its id to the name. Until a process ends, what has
    /// been found of it is in OUT.PID.partial; that stays where it is killed by SIGKILL.
    #[arg(short, long, value_name = "OUT", conflicts_with = "input")]
    pub(crate) output: Option<PathBuf>,

    /// Write the trace to this file, too, as `unspool trace` does
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    pub(crate) record: Option<PathBuf>,

    /// A program to run and its arguments, instead of a trace: no trace is written unless one is wanted
    ///
    /// It ends with the program's status, unless the answer has one of its own.
    #[arg(
        value_name = "PROGRAM",
        last = true,
        conflicts_with_all = ["input", "follow"]
    )]
    pub(crate) program: Vec<OsString>,
}
