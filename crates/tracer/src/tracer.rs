//! The tracer of a process, put together from its parts.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use unspool_engine::StartError;
use unspool_engine::plan::Program;
use unspool_kernel::descriptors::Headroom;
use unspool_kernel::lock::OnceLock;
use unspool_loader::LoadedProgram;

use crate::annotations::Said;
use crate::ceilings::{Ceilings, RecordingEnd};
use crate::check_sites::CheckSites;
use crate::fragments::Fragments;
use crate::functions::Functions;
use crate::inserted::Parts;
use crate::keeper::Keeper;
use crate::modules::{FileCode, Modules};
use crate::ownership::Ownership;
use crate::plan::TracePlan;
use crate::recording::Recording;
use crate::schedule_noise;
use crate::skew::Skew;
use crate::start_error::TraceError;
use crate::values::ValueCalls;

/// The trace of a process.
pub(crate) struct Tracer {
    pub(crate) recording: Recording,
    pub(crate) ceilings: Ceilings,
    pub(crate) end: RecordingEnd,
    pub(crate) fragments: Fragments,
    pub(crate) value_calls: ValueCalls,
    pub(crate) check_sites: CheckSites,
    pub(crate) functions: Functions,
    pub(crate) modules: Modules,
    /// What the program has said of itself.
    pub(crate) said: Said,
    pub(crate) ownership: Ownership,
    pub(crate) skew: Skew,
    pub(crate) keeper: Keeper,
    /// The status that it wants the process to end with, plus 1; 0 for none.
    pub(crate) wanted_status: AtomicU32,
    /// Whether a failure of the program's own is told instead.
    pub(crate) status_yields: AtomicBool,
    /// Whether not everything was recorded.
    pub(crate) is_short: AtomicBool,
    /// Whether the user has been told that others write program memory.
    pub(crate) is_changed_by_others: AtomicBool,
    /// Whether the process has started others.
    pub(crate) has_forked: AtomicBool,
}

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// The tracer of this process, if there is one.
pub(crate) fn tracer() -> Option<&'static Tracer> {
    TRACER.get()
}

/// Makes this the tracer of the process, for good.
pub(crate) fn install(tracer: Tracer) -> &'static Tracer {
    TRACER.get_or_init(|| tracer)
}

impl Tracer {
    pub(crate) fn new(
        plan: &TracePlan,
        program: &Program,
        loaded: &LoadedProgram,
    ) -> Result<Tracer, StartError> {
        schedule_noise::settle(plan.noise);
        let ceilings = Ceilings::from_environment().map_err(TraceError::Ceilings)?;
        let recording = Recording::new(plan, program, loaded, ceilings.path_ids)?;
        let ownership = Ownership::reserve(plan, &ceilings).map_err(TraceError::ReserveOwners)?;
        let has_sites = ownership.is_on() || plan.verify;
        let tracer = Tracer {
            recording,
            end: RecordingEnd::default(),
            fragments: Fragments::default(),
            value_calls: ValueCalls::default(),
            check_sites: CheckSites::reserve(has_sites).map_err(TraceError::ReserveOwners)?,
            functions: Functions::new(&plan.functions, plan.functions_with_openmp.as_deref()),
            modules: Modules::default(),
            said: Said::default(),
            ownership,
            skew: Skew::new(plan),
            keeper: Keeper::default(),
            wanted_status: AtomicU32::new(0),
            status_yields: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            is_changed_by_others: AtomicBool::new(false),
            has_forked: AtomicBool::new(false),
            ceilings,
        };
        let is_code = |protection| protection & libc::PROT_EXEC != 0;
        let segments = loaded.segments.iter();
        let code = segments.filter(|segment| is_code(segment.protection));
        tracer.define_modules(code.filter_map(|segment| {
            Some(FileCode {
                path: segment.file.clone()?,
                address: segment.address,
                offset: segment.offset,
                size: segment.size,
            })
        }));
        Ok(tracer)
    }

    /// What inserted code is about.
    pub(crate) fn parts(&'static self) -> Parts {
        Parts {
            recording: &self.recording,
            ownership: &self.ownership,
            check_sites: &self.check_sites,
            value_calls: &self.value_calls,
            functions: &self.functions,
            fragments: &self.fragments,
        }
    }

    /// Begins a file of its own, in a forked child, or for what the process does from here on.
    pub(crate) fn begin_file(&self) {
        // The parent may have used up all descriptors.
        let _headroom = Headroom::get();
        self.fragments.records.clear();
        self.value_calls.clear();
        self.modules.forget();
        self.keeper.forget();
        self.recording.begin_file();
        self.define_modules(FileCode::all_mapped().into_iter());
        self.functions.define_chosen(&*self.recording.sink());
    }

    fn define_modules(&self, code: impl Iterator<Item = FileCode>) {
        let sink = self.recording.sink();
        self.modules.define_kernels(&*sink);
        // Nothing that runs was translated without what is found here: the program has not begun, or
        // its hooks are those of before.
        code.for_each(|code| _ = self.modules.define(&*sink, &self.functions, &code));
    }

    /// Translations are gone, and what was known of them.
    pub(crate) fn forget_translations(&self) {
        self.fragments.records.clear();
        self.value_calls.clear();
        self.check_sites.forget();
        self.recording.begin_generation();
    }

    /// Whether the process has started others.
    pub(crate) fn has_forked(&self) -> bool {
        self.has_forked.load(Ordering::Relaxed)
    }
}
