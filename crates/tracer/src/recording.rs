//! The recording of a process: what is wanted, where it goes, and what its threads share.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use unspool_engine::StartError;
use unspool_engine::plan::Program;
use unspool_engine::process::Process;
use unspool_events::superblock::Superblock;
use unspool_events::{
    Measurement, Order, RecordSink, Summary, ThreadId, ThreadRecords, TraceHeader, WriteError,
};
use unspool_kernel::lock::{Mutex, OnceLock};
use unspool_loader::LoadedProgram;

use crate::destination;
use crate::native_run::{Cost, Meter, now_unix_ns};
use crate::path_ids::PathIds;
use crate::plan::{TraceOutput, TracePlan};
use crate::progress_line::ProgressLine;
use crate::tickets::Tickets;

/// The recording of a process.
pub(crate) struct Recording {
    pub(crate) plan: TracePlan,
    header: TraceHeader,
    /// Where what is recorded goes.
    sink: Mutex<Arc<dyn RecordSink>>,
    /// The descriptor of the file; -1 for none.
    file: AtomicI32,
    /// Where tickets are drawn.
    pub(crate) tickets: Tickets,
    pub(crate) path_ids: PathIds,
    /// Whether a region of interest is active.
    pub(crate) in_region: AtomicBool,
    /// Whether all is recorded that is selected: not while only what is concurrent is wanted, and
    /// nothing is.
    has_begun: AtomicBool,
    pub(crate) buffers: BufferBytes,
    pub(crate) progress_line: ProgressLine,
    meter: Mutex<Meter>,
    process: OnceLock<&'static Process>,
}

/// Bytes of the trace buffers of all threads.
#[derive(Debug, Default)]
pub(crate) struct BufferBytes {
    now: AtomicU64,
    most: AtomicU64,
}

impl BufferBytes {
    /// A buffer has been mapped.
    pub(crate) fn add(&self, bytes: u64) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    /// A buffer has been unmapped.
    pub(crate) fn remove(&self, bytes: u64) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The most that there were.
    pub(crate) fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.now.store(0, Ordering::Relaxed);
        self.most.store(0, Ordering::Relaxed);
    }
}

impl Recording {
    /// As the plan says, of a program that has been loaded. There are so many ids of paths.
    pub(crate) fn new(
        plan: &TracePlan,
        program: &Program,
        loaded: &LoadedProgram,
        path_ids: u32,
    ) -> Result<Recording, StartError> {
        let header = header(plan, program, loaded);
        let (sink, file) = match plan.child {
            true => destination::open_or_discard(plan, &header),
            false => destination::open(plan, &header, false)?,
        };
        Ok(Recording {
            plan: plan.clone(),
            header,
            sink: Mutex::new(sink),
            file: AtomicI32::new(file),
            tickets: Tickets::reserve().map_err(StartError::Reserve)?,
            path_ids: PathIds::new(path_ids),
            in_region: AtomicBool::new(false),
            has_begun: AtomicBool::new(!plan.concurrent_only),
            buffers: BufferBytes::default(),
            progress_line: ProgressLine::default(),
            meter: Mutex::new(Meter::start()),
            process: OnceLock::new(),
        })
    }

    /// The run of a process begins.
    pub(crate) fn begin(&self, process: &'static Process) {
        let _ = self.process.set(process);
    }

    fn process(&self) -> &'static Process {
        self.process
            .get()
            .expect("nothing is asked before the run begins")
    }

    /// Where what is recorded goes.
    pub(crate) fn sink(&self) -> Arc<dyn RecordSink> {
        self.sink.lock().clone()
    }

    /// The descriptor of the file, if there is one.
    pub(crate) fn file(&self) -> Option<i32> {
        Some(self.file.load(Ordering::Relaxed)).filter(|&file| file >= 0)
    }

    /// The order between threads.
    #[must_use]
    pub(crate) fn order(&self) -> Order {
        self.plan.order
    }

    /// Whether values are recorded.
    #[must_use]
    pub(crate) fn records_values(&self) -> bool {
        self.plan.verify
    }

    /// Whether each instruction is recorded, accessing or not.
    #[must_use]
    pub(crate) fn records_instructions(&self) -> bool {
        self.plan.instructions
    }

    /// Whether this is the process that the user has started.
    pub(crate) fn is_first_process(&self) -> bool {
        self.plan.run.first_process && self.process().forked.load(Ordering::Relaxed) == 0
    }

    /// Whether another observed process or program started this one.
    pub(crate) fn is_child(&self) -> bool {
        self.plan.child || self.process().forked.load(Ordering::Relaxed) != 0
    }

    /// Whether accesses are recorded, of the threads and regions that are wanted.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// The process has one thread again: it is a forked child.
    pub(crate) fn start_alone(&self) {
        self.has_begun
            .store(!self.plan.concurrent_only, Ordering::Release);
    }

    /// From now on they are. Returns whether they were not before.
    pub(crate) fn begin_accesses(&self) -> bool {
        !self.has_begun.swap(true, Ordering::AcqRel)
    }

    /// Whether a thread's accesses are wanted.
    pub(crate) fn selects(&self, registered: bool) -> bool {
        let region = !self.plan.regions_only || self.in_region.load(Ordering::Acquire);
        let thread = !self.plan.registered_only || registered;
        self.has_begun() && region && thread
    }

    /// The time that an event gets, in orders whose times do not advance by themselves.
    pub(crate) fn event_time(&self) -> Option<u64> {
        match self.plan.order {
            Order::None | Order::LineAtomic => None,
            Order::Ticket => Some(self.tickets.draw()),
            // SAFETY: reads a counter.
            Order::Timestamp => Some(unsafe { std::arch::x86_64::_rdtsc() }),
        }
    }

    /// What the process has cost since its file was begun.
    pub(crate) fn cost(&self) -> Cost {
        self.meter.lock().cost()
    }

    /// Counts words of trace for the line that says how many there are, if that is wanted.
    pub(crate) fn count_words(&self, words: usize) {
        if self.plan.progress && self.is_first_process() {
            let seconds = self.cost().wall.as_secs_f64();
            self.progress_line.count(words, seconds);
        }
    }

    /// Makes a superblock known. Called under the lock of the cache, before its code can run.
    pub(crate) fn define(&self, superblock: &Superblock) {
        self.path_ids.take(superblock.paths.len());
        self.sink.lock().define_superblock(superblock);
    }

    /// No translation is left. Path ids begin anew where many are used: what they have named until
    /// now each thread still says of its own records.
    pub(crate) fn begin_generation(&self) {
        if self.path_ids.are_many_taken() {
            self.sink.lock().begin_generation();
            self.path_ids.begin_generation();
        }
    }

    /// Where a thread's records go.
    pub(crate) fn begin_thread(&self, thread: ThreadId) -> Box<dyn ThreadRecords> {
        self.sink.lock().thread(thread)
    }

    /// Puts the last words into the trace.
    pub(crate) fn finish(
        &self,
        measurements: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> Result<Summary, WriteError> {
        let sink = self.sink.lock();
        for (name, value) in measurements {
            sink.add_measurement(&Measurement {
                name: name.to_owned(),
                value,
            });
        }
        sink.finish()
    }

    /// Replaces the file: by one of a forked child, or of what the process does from here on.
    pub(crate) fn begin_file(&self) {
        let mut plan = self.plan.clone();
        plan.child = true;
        if self.process().plan.leave_children {
            plan.output = TraceOutput::Discard;
        }
        let header = TraceHeader {
            process: std::process::id(),
            parent_process: Some(self.header.process),
            start_unix_ns: now_unix_ns(),
            ..self.header.clone()
        };
        self.path_ids.forget();
        *self.meter.lock() = Meter::start();
        self.buffers.forget();
        let (sink, file) = destination::open_or_discard(&plan, &header);
        let parents = std::mem::replace(&mut *self.sink.lock(), sink);
        // Closing its file could close the parent's: they may share descriptors.
        std::mem::forget(parents);
        self.file.store(file, Ordering::Relaxed);
    }
}

fn header(plan: &TracePlan, program: &Program, loaded: &LoadedProgram) -> TraceHeader {
    let option = |name: &str, value: &dyn std::fmt::Display| (name.to_owned(), value.to_string());
    TraceHeader {
        order: plan.order,
        granule: if plan.order == Order::LineAtomic {
            plan.granule
        } else {
            0
        },
        program: loaded.executable.as_os_str().as_bytes().to_vec(),
        arguments: program
            .arguments
            .iter()
            .map(|argument| argument.as_bytes().to_vec())
            .collect(),
        options: vec![
            option("registered-only", &plan.registered_only),
            option("roi", &plan.regions_only),
            option("failed-cas", &plan.failed_cas),
            option("verify", &plan.verify),
            option("instructions", &plan.instructions),
            option("locks", &plan.locks),
            option("buffer", &plan.buffer),
            option("max-skew", &plan.max_skew),
        ],
        process: std::process::id(),
        parent_process: plan.child.then(std::os::unix::process::parent_id),
        start_unix_ns: now_unix_ns(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
