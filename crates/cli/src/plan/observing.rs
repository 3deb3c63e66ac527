//! What is to be run, and what is to be recorded of it.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{FileType, Stat};
use unspool_engine::plan::Keeping;
use unspool_events::Order;

use super::{Children, LetGo, ObservedProgram, ToolChoice, kept_translations};
use crate::arguments::{OrderChoice, RunArguments, TraceArguments};
use crate::failure::Failure;

/// A program to be run without being recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunPlan {
    /// What to run.
    pub(crate) observed: ObservedProgram,
    /// What happens to child processes.
    pub(crate) children: Children,
    /// Bytes that translated code may take.
    pub(crate) code_cache: u64,
    /// Where translations are kept, if they are.
    pub(crate) persistent_cache: Option<Keeping>,
    /// Where gdb can connect, if it is to debug the program.
    pub(crate) gdb: Option<unspool_debugger::Address>,
    /// When the process is let go.
    pub(crate) let_go: LetGo,
}

impl TryFrom<RunArguments> for RunPlan {
    type Error = Failure;

    fn try_from(typed: RunArguments) -> Result<RunPlan, Failure> {
        check_code_cache(typed.code_cache)?;
        Ok(RunPlan {
            observed: ObservedProgram::new(typed.program)?,
            children: typed.children.into(),
            code_cache: typed.code_cache,
            persistent_cache: match typed.gdb {
                Some(_) => None,
                None => {
                    kept_translations::keeping(typed.persistent_cache, typed.no_persistent_cache)?
                }
            },
            let_go: LetGo::new(typed.detach, typed.gdb.is_some())?,
            gdb: typed.gdb,
        })
    }
}

/// The largest is what the address space has room for.
fn check_code_cache(size: u64) -> Result<(), Failure> {
    use unspool_engine::plan::SMALLEST_CODE_CACHE;
    use unspool_kernel::layout::CACHE_SIZE;
    if (SMALLEST_CODE_CACHE..=CACHE_SIZE).contains(&size) {
        return Ok(());
    }
    let (least, most) = (SMALLEST_CODE_CACHE >> 20, CACHE_SIZE >> 20);
    Err(Failure::new(format!(
        "--code-cache {size} is not from {least}M to {most}M"
    )))
}

/// Where a trace goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TraceDestination {
    /// Nowhere.
    Discard,
    /// Standard output; what the program prints there goes to standard error.
    StandardOutput,
    /// This file or FIFO.
    File(PathBuf),
}

/// A trace to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TracePlan {
    /// What to run.
    pub(crate) observed: ObservedProgram,
    /// Where the trace goes.
    pub(crate) destination: TraceDestination,
    /// The order between threads.
    pub(crate) order: Order,
    /// Only threads that registered themselves are recorded.
    pub(crate) registered_only: bool,
    /// Names of the functions whose calls and returns are recorded.
    pub(crate) functions: Vec<String>,
    /// Calls of OpenMP's runtimes are recorded.
    pub(crate) openmp: bool,
    /// Only regions of interest are recorded.
    pub(crate) region_only: bool,
    /// Bytes in a unit of ownership; a power of two from 8 to 4096.
    pub(crate) granule: u32,
    /// Number of locks for contended lines; the engine's choice where none was given.
    pub(crate) locks: Option<u32>,
    /// Accesses in a thread's buffer; the engine's choice where none was given.
    pub(crate) buffer: Option<u32>,
    /// The greatest distance of clocks; the engine's choice where none was given.
    pub(crate) max_skew: Option<u64>,
    /// What decides where threads wait so that they meet in other orders; 0: they do not.
    pub(crate) noise: u64,
    /// Failed compare-and-swaps count as writes in exports.
    pub(crate) failed_cas: bool,
    /// The program runs natively first, for comparison.
    pub(crate) measure_slowdown: bool,
    /// Whether the exit status says that not everything was recorded.
    pub(crate) strict: bool,
    /// Values are recorded too.
    pub(crate) verify: bool,
    /// Record each instruction.
    pub(crate) instructions: bool,
    /// The tool that observes the program with the tracer, if one does, and its arguments.
    pub(crate) tool: Option<ToolChoice>,
    /// What happens to child processes.
    pub(crate) children: Children,
    /// Bytes that translated code may take.
    pub(crate) code_cache: u64,
    /// When the process is let go.
    pub(crate) let_go: LetGo,
}

/// What the trace is called that nobody named.
const EXTENSION: &str = ".unspool";

impl TryFrom<TraceArguments> for TracePlan {
    type Error = Failure;

    fn try_from(typed: TraceArguments) -> Result<TracePlan, Failure> {
        let observed = ObservedProgram::new(typed.program)?;
        let destination = match (typed.discard, typed.output) {
            (true, _) => TraceDestination::Discard,
            (false, Some(path)) if path == Path::new("-") => to_standard_output()?,
            (false, Some(path)) if is_standard_output(&path) => to_standard_output()?,
            (false, Some(path)) => TraceDestination::File(path),
            (false, None) => TraceDestination::File(default_output(&observed)?),
        };
        check_code_cache(typed.code_cache)?;
        check_granule(typed.granule)?;
        check_positive("--locks", typed.locks.map(u64::from))?;
        check_positive("--buffer", typed.buffer.map(u64::from))?;
        check_positive("--max-skew", typed.max_skew)?;
        if typed.max_skew.is_some() && typed.order == OrderChoice::None {
            return Err(
                Failure::new("--order none has no clocks for --max-skew to bound")
                    .with_help("choose another order, or leave --max-skew out"),
            );
        }
        Ok(TracePlan {
            observed,
            destination,
            order: typed.order.into(),
            registered_only: typed.registered_only,
            functions: typed
                .functions
                .as_deref()
                .map(read_functions)
                .transpose()?
                .unwrap_or_default(),
            openmp: typed.openmp,
            region_only: typed.roi,
            granule: typed.granule,
            locks: typed.locks,
            buffer: typed.buffer,
            max_skew: typed.max_skew,
            noise: typed.noise.unwrap_or(0),
            failed_cas: typed.failed_cas,
            measure_slowdown: typed.measure_slowdown,
            strict: typed.strict,
            verify: typed.verify,
            instructions: typed.instructions,
            tool: typed.tool.map(|name| ToolChoice {
                name,
                arguments: typed.tool_argument,
                control: None,
            }),
            children: typed.children.into(),
            code_cache: typed.code_cache,
            let_go: LetGo::new(typed.detach, false)?,
        })
    }
}

impl From<OrderChoice> for Order {
    fn from(typed: OrderChoice) -> Order {
        match typed {
            OrderChoice::None => Order::None,
            OrderChoice::Ticket => Order::Ticket,
            OrderChoice::LineAtomic => Order::LineAtomic,
            OrderChoice::Timestamp => Order::Timestamp,
        }
    }
}

/// Whether a path names the file, pipe or terminal that is standard output, as `/dev/stdout`
/// does.
fn is_standard_output(path: &Path) -> bool {
    let named = rustix::fs::stat(path).ok();
    let own = rustix::fs::fstat(io::stdout()).ok();
    named
        .zip(own)
        .is_some_and(|(named, own)| is_same_file(&named, &own))
}

/// Whether two open files are one. What is written to /dev/null does not mix.
fn is_same_file(first: &Stat, second: &Stat) -> bool {
    let is_null = |file: &Stat| {
        FileType::from_raw_mode(file.st_mode) == FileType::CharacterDevice
            && file.st_rdev == rustix::fs::makedev(1, 3)
    };
    (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino) && !is_null(first)
}

/// Refuses to fill a terminal with a binary trace, or to mix it with what the program prints.
fn to_standard_output() -> Result<TraceDestination, Failure> {
    if io::stdout().is_terminal() {
        return Err(
            Failure::new("a trace is binary: it will not be written to a terminal").with_help(
                "name a file with -o FILE, or pipe it: unspool trace -o - PROGRAM | unspool merge",
            ),
        );
    }
    let files = (
        rustix::fs::fstat(io::stdout()),
        rustix::fs::fstat(io::stderr()),
    );
    if let (Ok(output), Ok(error)) = files
        && is_same_file(&output, &error)
    {
        return Err(Failure::new(
            "standard output and standard error are one: what the program prints would be mixed into the trace",
        )
        .with_help("let them go to different places: leave 2>&1 out, or add 2>FILE"));
    }
    Ok(TraceDestination::StandardOutput)
}

/// The program's name with the extension, in the current directory.
fn default_output(observed: &ObservedProgram) -> Result<PathBuf, Failure> {
    let mut name = Path::new(&observed.program)
        .file_name()
        .ok_or_else(|| {
            Failure::new(format!("{} is not a program", observed.program.display()))
                .with_status(crate::exit_status::NOT_EXECUTABLE)
        })?
        .to_owned();
    name.push(EXTENSION);
    Ok(PathBuf::from(name))
}

/// Ownership units are found by shifting an address, and are at least a word.
pub(super) fn check_granule(granule: u32) -> Result<(), Failure> {
    if granule.is_power_of_two() && (8..=4096).contains(&granule) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "--granule {granule} is not a power of two from 8 to 4096"
    ))
    .with_help("leave --granule out to use the processor's cache line of 64 bytes"))
}

/// Numbers of things that there must be at least one of.
fn check_positive(option: &str, value: Option<u64>) -> Result<(), Failure> {
    if value == Some(0) {
        return Err(Failure::new(format!("{option} must be at least 1")));
    }
    Ok(())
}

/// The names in a function file: one in each line; empty lines and lines that start with
/// `#` are skipped.
fn read_functions(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the function names in {}", path.display()))?;
    let names: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        return Err(Failure::new(format!(
            "{} names no function",
            path.display()
        )));
    }
    Ok(names)
}
