//! What all threads of the process share.

use std::ffi::CStr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use unspool_events::ThreadId;

use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, FragmentId};
use unspool_code_cache::gates::{Gates, VectorState};
use unspool_kernel::ids::{Pid, Tid};
use unspool_kernel::lock::{Mutex, MutexGuard, OnceLock};
use unspool_kernel::queued_writes::Queues;
use unspool_kernel::regions::Regions;

use crate::client::Clients;
use crate::lending::Lending;
use crate::persist::Persistence;
use crate::plan::Plan;
use crate::signals::actions::Actions;
use crate::thread::Thread;
use crate::translate::Vdso;

/// Translations and the map of what they come from: changed together, under one lock.
pub struct Translations {
    /// The code cache.
    pub cache: Cache,
    /// The program's address space.
    pub regions: Regions,
    /// Pages that are writable for the program but write-protected because they were translated.
    pub(crate) watched_pages: std::collections::BTreeSet<u64>,
    /// What the kernel is writing, or may be, in system calls of the program.
    pub(crate) being_written: Vec<std::ops::Range<u64>>,
    /// What the kernel may be writing without a call that waits for it.
    pub(crate) queues: Queues,
    /// The program bytes from which fragments were made that other processes may change.
    pub(crate) checked: rustc_hash::FxHashMap<FragmentId, Vec<u8>>,
    /// Which shared memory other processes may write.
    pub lending: Lending,
    /// What is kept of them between runs, if anything is.
    pub(crate) persistence: Option<Persistence>,
}

impl Translations {
    /// Takes shared memory back that no other process may write any more.
    pub(crate) fn take_back_lent(&mut self) {
        self.lending.take_back((&mut self.regions, &mut self.cache));
    }

    /// Another process is about to have the program's shared memory.
    pub(crate) fn lend(&mut self) {
        self.lending
            .before_fork((&mut self.regions, &mut self.cache));
    }

    /// Activates the kept translations of all code that is there.
    pub(crate) fn activate_kept(&mut self) {
        if let Some(persistence) = &mut self.persistence {
            persistence.activate(&self.regions, &mut self.cache);
        }
    }
}

/// The name of a process that shares this one's memory and works for it: it goes when this one does.
pub const HELPER: &CStr = c"unspool-keeper";

/// The state of the process.
pub struct Process {
    /// Translations.
    code: Mutex<Translations>,
    /// The gates; they never move.
    pub(crate) gates: Gates,
    facts: Facts,
}

/// What does not belong to translations.
pub struct Facts {
    /// How vector state is saved.
    pub vectors: VectorState,
    /// What the user asked for.
    pub plan: Plan,
    /// The program's executable, as `/proc/self/exe` should show it.
    pub executable: PathBuf,
    /// The vDSO as the program sees it.
    pub vdso: Vdso,
    /// Where the dynamic loader is; empty if there is none.
    pub(crate) dynamic_loader: Range<u64>,
    /// Whether the kernel lets user code write the GS base.
    pub(crate) fsgsbase: bool,
    /// The program break: its start and its current end.
    pub program_break: Mutex<(u64, u64)>,
    /// What signals do.
    pub(crate) actions: Arc<Actions>,
    /// All threads that run program code.
    pub threads: Mutex<Vec<ThreadHandle>>,
    /// How many threads there are.
    pub(crate) thread_count: AtomicUsize,
    /// Threads created so far: the next one's [`ThreadOrdinal`].
    pub next_thread: AtomicU64,
    /// Set when the process is ending: threads park at their next exit.
    pub(crate) ending: AtomicUsize,
    /// Set in a process that was forked by an observed one.
    pub forked: AtomicUsize,
    /// The exit status of the first thread, which older kernels make the process's when the last
    /// thread ends.
    pub(crate) first_status: AtomicU64,
    /// Who listens to the run, or changes it.
    pub clients: Clients,
}

impl std::ops::Deref for Process {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

/// The thread with which the process began.
pub(crate) const FIRST_THREAD: ThreadId = ThreadId(0);

/// How many threads the program has created before this one, the first one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct ThreadOrdinal(u64);

impl ThreadOrdinal {
    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// The thread's id: as many bits of the number as that has.
    #[must_use]
    pub fn id(self) -> ThreadId {
        ThreadId(self.0 as u32)
    }
}

/// A PID namespace that was met, by its number. Ids of two of them have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct PidNamespace(u32);

impl PidNamespace {
    /// That of the process.
    pub(crate) const OF_PROCESS: PidNamespace = PidNamespace(0);
    /// That of threads that nobody can reach.
    pub(crate) const NOBODYS: PidNamespace = PidNamespace(u32::MAX);

    /// The one that was met as so manieth behind that of the process.
    pub(crate) fn numbered(number: u32) -> PidNamespace {
        PidNamespace(number)
    }
}

/// How the process finds one of its threads.
#[derive(Debug, Clone, Copy)]
pub struct ThreadHandle {
    /// The kernel's id in the namespace.
    pub tid: Tid,
    /// The kernel's id of its process: a child may share the memory.
    pub process: Pid,
    /// The PID namespace to which the ids belong.
    pub(crate) namespace: PidNamespace,
    /// Its state; valid while the handle is listed.
    pub thread: *mut Thread,
}

// SAFETY: the pointer is used only under the lock of the list, while its thread is alive.
unsafe impl Send for ThreadHandle {}

impl Facts {
    /// That of a new thread. Ids begin anew after the last one, without those that threads still have.
    pub(crate) fn next_ordinal(&self) -> ThreadOrdinal {
        loop {
            let ordinal = ThreadOrdinal(self.next_thread.fetch_add(1, Ordering::Relaxed));
            if ordinal.0 <= u64::from(u32::MAX) || !self.has_thread(ordinal.id()) {
                return ordinal;
            }
        }
    }

    fn has_thread(&self, id: ThreadId) -> bool {
        let threads = self.threads.lock();
        // The first thread's is never given out again, for it stands for that.
        id == FIRST_THREAD
            || threads.iter().any(|handle| {
                // SAFETY: the thread lives while it is listed; its id does not change.
                unsafe { (*handle.thread).id == id }
            })
    }
}

static PROCESS: OnceLock<Process> = OnceLock::new();

impl Process {
    /// Puts the parts together.
    #[must_use]
    pub fn new(code: Translations, gates: Gates, facts: Facts) -> Process {
        Process {
            code: Mutex::new(code),
            gates,
            facts,
        }
    }

    /// The process, once there is one, for what comes from outside and may come to any thread: a
    /// signal, and a failure. Whoever has a thread of the program, or is a client, knows its process
    /// from there.
    #[must_use]
    pub(crate) fn try_get() -> Option<&'static Process> {
        PROCESS.get()
    }

    /// Makes this the process.
    ///
    /// # Panics
    /// If there is one already.
    pub fn install(process: Process) -> &'static Process {
        let mut process = Some(process);
        let installed = PROCESS.get_or_init(|| process.take().expect("it is taken once"));
        assert!(process.is_none(), "there is one process");
        installed
            .clients
            .each(|client| client.run_begins(installed));
        installed
    }

    /// Locks the translations.
    pub fn code(&self) -> MutexGuard<'_, Translations> {
        self.code.lock()
    }

    /// The same if that needs no waiting.
    pub(crate) fn try_code(&self) -> Option<MutexGuard<'_, Translations>> {
        self.code.try_lock()
    }
}

impl Process {
    /// What code that is translated now finds spilled where indirect branches arrive.
    #[must_use]
    pub(crate) fn convention(&self) -> LookupConvention {
        self.clients.convention()
    }

    /// Makes all translations unreachable; those that come find where indirect branches arrive what
    /// clients wish now.
    pub fn clear_translations(&self) {
        self.clients.clear_translations(&mut self.code().cache);
    }

    /// Whether the process is ending.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire) != 0
    }
}
