//! The process: its file, its beginning and its end.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use unspool_openmp_record::layout::{entry, header, runtime};

use crate::arena::{self, Fields};
use crate::{clock, fork, modules, thread};

/// Where records go; nothing where nobody wants them.
static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();

static START_TICKS: AtomicU64 = AtomicU64::new(0);
static START_NS: AtomicU64 = AtomicU64::new(0);
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

/// The header of the process's file, which is made when it is first needed: a process
/// without OpenMP leaves none.
pub(crate) fn header() -> Option<Fields> {
    match arena::header() {
        Some(header) => Some(header),
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
    if let Some(header) = arena::header() {
        return Some(header);
    }
    // SAFETY: these only return numbers.
    let (process, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    let start_ns = START_NS.load(Ordering::Relaxed);
    let path = directory.join(format!("{process}-{start_ns}.openmp"));
    let fields = arena::create(CString::new(path.into_os_string().into_vec()).ok()?)?;
    fields.set(header::PROCESS, process as u64);
    fields.set(header::PARENT, parent as u64);
    fields.set(header::START_TICKS, START_TICKS.load(Ordering::Relaxed));
    fields.set(header::START_NS, start_ns);
    fields.set(header::CLOCK, u64::from(!clock::is_processor_clock()));
    fields.set(header::PEAK_THREADS, 1);
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    fields.set(header::PROCESSORS, processors as u64);
    note_time();
    let arguments = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    arena::describe(entry::ARGUMENTS, &[], &arguments);
    modules::describe_new();
    Some(fields)
}

/// Notes that a runtime takes part.
pub(crate) fn note_runtime(bit: u64) {
    if let Some(header) = header()
        && header.get(header::RUNTIMES) & bit == 0
    {
        header.set_bits(header::RUNTIMES, bit);
    }
}

/// Notes which place this process has in its MPI job.
pub(crate) fn note_rank(rank: u64, ranks: u64) {
    if let Some(header) = header() {
        header.set_bits(header::RUNTIMES, runtime::MPI);
        header.set(header::RANK, rank + 1);
        header.set(header::RANKS, ranks);
    }
}

/// Reads both clocks, so that ticks can be told in nanoseconds whenever the process ends.
pub(crate) fn note_time() {
    if let Some(header) = arena::header() {
        header.set(header::LAST_TICKS, clock::now());
        header.set(header::LAST_NS, clock::monotonic_ns());
    }
}

/// Starts to count time.
pub(crate) fn start_time() {
    START_NS.store(clock::monotonic_ns(), Ordering::Relaxed);
    START_TICKS.store(clock::now(), Ordering::Relaxed);
}

fn begin() {
    clock::choose();
    start_time();
    let directory = std::env::var_os("UNSPOOL_OPENMP_DIRECTORY").map(PathBuf::from);
    let wanted = directory.is_some();
    // Nothing else sets it.
    let _ = DIRECTORY.set(directory);
    if wanted {
        fork::watch();
        thread::watch_ends();
    }
}

fn end() {
    note_time();
    if let Some(header) = arena::header() {
        header.set(header::ENDED, 1);
    }
}

unspool_preload::begin_and_end!(begin, end);
