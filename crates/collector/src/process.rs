//! The process: its file, and its time.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use unspool_container::{Order, TraceHeader, in_place};
use unspool_openmp_record::layout::{process_block, runtime, stream};
use unspool_preload::clock;

use crate::arena::{self, Fields};
use crate::modules;

/// Where records go; nothing where nobody wants them.
static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();

static CREATION: Mutex<()> = Mutex::new(());

/// Whether anything is to be collected.
#[inline]
pub(crate) fn is_collecting() -> bool {
    matches!(DIRECTORY.get(), Some(Some(_)))
}

/// Whether single passages are wanted too.
pub(crate) fn wants_spans() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os("UNSPOOL_OPENMP_SPANS").is_some())
}

/// The block of the process in its file, which is made when it is first needed: a process
/// without OpenMP leaves none.
pub(crate) fn block() -> Option<Fields> {
    match arena::process_block() {
        Some(block) => Some(block),
        None => create(),
    }
}

/// The right to make the file.
pub(crate) fn creation() -> MutexGuard<'static, ()> {
    CREATION.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn create() -> Option<Fields> {
    let directory = DIRECTORY.get()?.as_ref()?;
    let _one_at_a_time = creation();
    if let Some(block) = arena::process_block() {
        return Some(block);
    }
    let (start_ticks, start_ns) = clock::start();
    let header = file_header(start_ns);
    let path = directory.join(format!("{}-{start_ns}.openmp", header.process));
    let path = CString::new(path.into_os_string().into_vec()).ok()?;
    let start = in_place::start(&header, &stream::declarations());
    let block = arena::create(path, &start, |process| {
        // SAFETY: only returns a number.
        let parent = unsafe { libc::getppid() };
        process.set(process_block::PARENT, parent as u64);
        process.set(process_block::START_TICKS, start_ticks);
        process.set(process_block::START_NS, start_ns);
        let is_monotonic = !clock::is_processor_clock();
        process.set(process_block::CLOCK, u64::from(is_monotonic));
        process.set(process_block::PEAK_THREADS, 1);
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        process.set(process_block::PROCESSORS, processors as u64);
        set_time(process);
    })?;
    modules::describe_new();
    Some(block)
}

/// What every file of Unspool begins with.
fn file_header(start_ns: u64) -> TraceHeader {
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let arguments = arguments.split_inclusive(|byte| *byte == 0);
    let without_end = |argument: &[u8]| argument.strip_suffix(&[0]).unwrap_or(argument).to_vec();
    let since_start = Duration::from_nanos(clock::monotonic_ns().saturating_sub(start_ns));
    let start = SystemTime::now() - since_start;
    let start = start.duration_since(UNIX_EPOCH).unwrap_or_default();
    TraceHeader {
        order: Order::None,
        granule: 0,
        program: modules::own_path(),
        arguments: arguments.map(without_end).collect(),
        options: Vec::new(),
        process: std::process::id(),
        parent_process: None,
        start_unix_ns: start.as_nanos() as u64,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Notes that a runtime takes part.
pub(crate) fn note_runtime(bit: u64) {
    if let Some(process) = block()
        && process.get(process_block::RUNTIMES) & bit == 0
    {
        process.set_bits(process_block::RUNTIMES, bit);
    }
}

/// Notes which rank this process has in its MPI job.
pub(crate) fn note_rank(rank: u64, ranks: u64) {
    if let Some(process) = block() {
        process.set_bits(process_block::RUNTIMES, runtime::MPI);
        process.set(process_block::RANK, rank + 1);
        process.set(process_block::RANKS, ranks);
    }
}

/// Reads both clocks, so that ticks can be told in nanoseconds whenever the process ends.
pub(crate) fn note_time() {
    if let Some(process) = arena::process_block() {
        set_time(process);
    }
}

fn set_time(process: Fields) {
    process.set(process_block::LAST_TICKS, clock::now());
    process.set(process_block::LAST_NS, clock::monotonic_ns());
}

/// Learns where records go, if anywhere.
pub(crate) fn choose_directory() {
    let directory = std::env::var_os("UNSPOOL_OPENMP_DIRECTORY").map(PathBuf::from);
    // Nothing else sets it.
    let _ = DIRECTORY.set(directory);
}

/// Notes that the process ends.
pub(crate) fn note_end() {
    note_time();
    if let Some(process) = arena::process_block() {
        process.set(process_block::ENDED, 1);
    }
}
