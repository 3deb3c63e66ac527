//! The tracer of a process.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use unspool_code_cache::binding::LookupConvention;
use unspool_events::raw::MAX_PATH_WORDS;
use unspool_events::superblock::Superblock;
use unspool_events::{Order, PathId, RecordSink, TraceHeader};
use unspool_instructions::operands::ExtendedStateSizes;
use unspool_kernel::descriptors::Headroom;
use unspool_kernel::lock::{Mutex, OnceLock};
use unspool_kernel::maps;
use unspool_loader::LoadedProgram;

use crate::ceilings::Ceilings;
use crate::fragment_trace::FragmentTrace;
use crate::inserted::record;
use crate::native_run::{Meter, now_unix_ns};
use crate::plan::{TraceOutput, TracePlan};
use crate::start_error::TraceError;
use crate::tickets::Tickets;
use crate::{
    annotations, destination, functions, keeper, modules, ownership, skew, summary, values,
};
use unspool_engine::StartError;
use unspool_engine::client::PerFragment;
use unspool_engine::plan::Program;
use unspool_engine::process::Process;
use unspool_engine::translate::forced_splits::ForcedSplits;
use unspool_engine::translate::superblock::{Item, Limits};

/// The trace of a process.
pub(crate) struct Tracer {
    pub(crate) plan: TracePlan,
    pub(crate) header: TraceHeader,
    /// How large the operands of `xsave` and its kin are.
    pub(crate) state_sizes: ExtendedStateSizes,
    /// Where what is recorded goes.
    pub(crate) writer: Mutex<Arc<dyn RecordSink>>,
    /// The status that it wants the process to end with, plus 1; 0 for none.
    pub(crate) wanted_status: AtomicU32,
    /// The descriptor of the file; -1 for none.
    pub(crate) file: AtomicI32,
    pub(crate) next_path: AtomicU32,
    /// The generation of path ids, counted from the start of the file.
    pub(crate) generation: AtomicU32,
    pub(crate) ceilings: Ceilings,
    /// What has brought the recording to its end; 0 for nothing.
    pub(crate) end: AtomicU32,
    /// What is known of fragments.
    pub(crate) fragments: PerFragment<FragmentTrace>,
    pub(crate) value_calls: Mutex<Vec<values::ValueCall>>,
    pub(crate) tickets: Tickets,
    pub(crate) functions: functions::Functions,
    pub(crate) modules: Mutex<modules::Modules>,
    /// What the program has said of itself.
    pub(crate) said: annotations::Said,
    /// Whether a region of interest is active.
    pub(crate) in_region: AtomicBool,
    pub(crate) ownership: ownership::Ownership,
    pub(crate) meter: Mutex<Meter>,
    /// Bytes of the trace buffers of all threads.
    pub(crate) buffer_bytes: AtomicU64,
    /// Their greatest number so far.
    pub(crate) most_buffer_bytes: AtomicU64,
    pub(crate) progress: summary::Progress,
    /// Whether not everything was recorded.
    pub(crate) is_short: AtomicBool,
    /// Whether the user has been told that others write program memory.
    pub(crate) is_changed_by_others: AtomicBool,
    /// Whether the process has started others.
    pub(crate) has_forked: AtomicBool,
    pub(crate) skew: skew::Skew,
    pub(crate) keeper: keeper::Keeper,
    pub(crate) forced_splits: ForcedSplits,
    pub(crate) process: OnceLock<&'static Process>,
}

/// More paths than a superblock can have.
const MOST_PATHS: u32 = 1024;

pub(crate) static TRACER: OnceLock<Tracer> = OnceLock::new();

/// The tracer of this process, if there is one.
pub(crate) fn tracer() -> Option<&'static Tracer> {
    TRACER.get()
}

impl Tracer {
    pub(crate) fn new(
        plan: &TracePlan,
        program: &Program,
        loaded: &LoadedProgram,
    ) -> Result<Tracer, StartError> {
        let header = header(plan, program, loaded);
        let (writer, file) = match plan.child {
            true => destination::open_or_discard(plan, &header),
            false => destination::open(plan, &header, false)?,
        };
        let ceilings = Ceilings::from_environment().map_err(TraceError::Ceilings)?;
        let ownership =
            ownership::Ownership::reserve(plan, &ceilings).map_err(TraceError::ReserveOwners)?;
        let tracer = Tracer {
            plan: plan.clone(),
            header,
            state_sizes: ExtendedStateSizes::of_this_processor(),
            writer: Mutex::new(writer),
            wanted_status: AtomicU32::new(0),
            file: AtomicI32::new(file),
            next_path: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            ceilings,
            end: AtomicU32::new(0),
            fragments: PerFragment::default(),
            value_calls: Mutex::new(Vec::new()),
            tickets: Tickets::reserve().map_err(StartError::Reserve)?,
            functions: functions::Functions::new(&plan.functions),
            modules: Mutex::default(),
            said: annotations::Said::default(),
            in_region: AtomicBool::new(false),
            ownership,
            meter: Mutex::new(Meter::start()),
            buffer_bytes: AtomicU64::new(0),
            most_buffer_bytes: AtomicU64::new(0),
            progress: summary::Progress::default(),
            is_short: AtomicBool::new(false),
            is_changed_by_others: AtomicBool::new(false),
            has_forked: AtomicBool::new(false),
            skew: skew::Skew::new(plan),
            keeper: keeper::Keeper::default(),
            forced_splits: ForcedSplits::default(),
            process: OnceLock::new(),
        };
        tracer.define_kernels_modules();
        for segment in &loaded.segments {
            if let Some(file) = &segment.file
                && segment.protection & libc::PROT_EXEC != 0
            {
                tracer.module_mapped(file, segment.address, segment.offset, segment.size);
            }
        }
        Ok(tracer)
    }

    /// The order between threads.
    #[must_use]
    pub(crate) fn order(&self) -> Order {
        self.plan.order
    }

    /// The registers that are spilled where an indirect branch arrives.
    #[must_use]
    pub(crate) fn convention(&self) -> LookupConvention {
        if self.checks_owners() {
            LookupConvention::Checked
        } else {
            LookupConvention::Traced
        }
    }

    /// Whether values are recorded.
    #[must_use]
    pub(crate) fn records_values(&self) -> bool {
        self.plan.verify
    }

    /// The process that is traced.
    pub(crate) fn process(&self) -> &'static Process {
        self.process
            .get()
            .expect("nothing is asked before the run begins")
    }

    /// Whether this is the process that the user has started.
    pub(crate) fn is_first_process(&self) -> bool {
        self.plan.run.first_process && self.process().forked.load(Ordering::Relaxed) == 0
    }

    /// Whether it has started others.
    pub(crate) fn has_forked(&self) -> bool {
        self.has_forked.load(Ordering::Relaxed)
    }

    /// Whether each instruction is recorded, accessing or not.
    #[must_use]
    pub(crate) fn records_instructions(&self) -> bool {
        self.plan.instructions
    }

    /// Whether another observed process or program started this one.
    pub(crate) fn is_child(&self) -> bool {
        self.plan.child || self.process().forked.load(Ordering::Relaxed) != 0
    }

    /// Where tickets are drawn.
    #[must_use]
    pub(crate) fn tickets(&self) -> Tickets {
        self.tickets
    }

    /// The id that the next superblock's first path has. Called under the lock of the cache.
    pub(crate) fn next_path(&self) -> PathId {
        PathId(self.next_path.load(Ordering::Relaxed))
    }

    /// Whether there may be too few path ids for another superblock. They are given out anew when
    /// the code cache has been emptied.
    pub(crate) fn has_named_all(&self) -> bool {
        let used = self.next_path.load(Ordering::Relaxed);
        used > self.ceilings.path_ids.saturating_sub(MOST_PATHS)
    }

    /// No translation is left. Path ids begin anew where many are used: what they have named until
    /// now each thread still says of its own records.
    pub(crate) fn begin_generation(&self) {
        if self.next_path.load(Ordering::Relaxed) > self.ceilings.path_ids / 2 {
            self.writer.lock().begin_generation();
            self.next_path.store(0, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Makes a superblock known. Called under the lock of the cache, before its code can run.
    pub(crate) fn define(&self, superblock: &Superblock) {
        self.next_path
            .fetch_add(superblock.paths.len() as u32, Ordering::Relaxed);
        self.writer.lock().define_superblock(superblock);
    }

    /// Replaces the file, in a forked child.
    pub(crate) fn start_child(&self) {
        // The parent may have used up all descriptors.
        let _headroom = Headroom::get();
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
        self.next_path.store(0, Ordering::Relaxed);
        self.generation.store(0, Ordering::SeqCst);
        self.fragments.clear();
        self.value_calls.lock().clear();
        self.modules.lock().forget();
        self.keeper.forget();
        *self.meter.lock() = Meter::start();
        self.buffer_bytes.store(0, Ordering::Relaxed);
        self.most_buffer_bytes.store(0, Ordering::Relaxed);
        let (writer, file) = destination::open_or_discard(&plan, &header);
        let parents = std::mem::replace(&mut *self.writer.lock(), writer);
        // Closing its file could close the parent's: they may share descriptors.
        std::mem::forget(parents);
        self.file.store(file, Ordering::Relaxed);
        self.define_kernels_modules();
        for (path, address, offset, size) in mapped_code() {
            self.module_mapped(&path, address, offset, size);
        }
        let writer = self.writer.lock().clone();
        self.functions.define_chosen(&*writer);
    }
}

impl Limits for Tracer {
    fn bound_registers(&self) -> usize {
        if self.checks_owners() { 3 } else { 2 }
    }

    fn state_sizes(&self) -> ExtendedStateSizes {
        self.state_sizes
    }

    fn word_bound(&self, item: &Item) -> usize {
        record::word_bound(item)
    }

    fn most_words(&self) -> usize {
        MAX_PATH_WORDS
    }

    fn forced_splits(&self) -> &ForcedSplits {
        &self.forced_splits
    }

    fn follows_calls(&self) -> bool {
        true
    }

    fn ends_behind(&self, _: &Item) -> bool {
        false
    }

    fn pairs_calls(&self) -> bool {
        // The program might read what it never wrote.
        !self.records_values()
    }

    /// Whether the traced functions want to see control reach an address.
    fn is_function(&self, pc: u64) -> bool {
        self.functions.is_hooked(pc)
    }
}

/// The executable file mappings of this process that belong to the program.
fn mapped_code() -> Vec<(PathBuf, u64, u64, u64)> {
    let own = std::fs::read_link("/proc/self/exe").ok();
    let text = maps::read();
    let executable = maps::lines(&text).filter(|line| line.permissions.contains('x'));
    let of_files = executable.filter_map(|line| {
        let path = Path::new(OsStr::from_bytes(line.name));
        let wanted = path.is_absolute() && Some(path) != own.as_deref();
        let Range { start, end } = line.range;
        wanted.then(|| (path.to_owned(), start, line.offset, end - start))
    });
    of_files.collect()
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
