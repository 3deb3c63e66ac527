//! What all threads of the process share.

use std::ffi::CStr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, FragmentId};
use unspool_code_cache::gates::{Gates, VectorState};
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
pub struct Code {
    /// The code cache.
    pub cache: Cache,
    /// The program's address space.
    pub regions: Regions,
    /// Pages that are writable for the program but write-protected because they were translated.
    pub watched_pages: std::collections::BTreeSet<u64>,
    /// What the kernel is writing, or may be, in system calls of the program.
    pub being_written: Vec<std::ops::Range<u64>>,
    /// What the kernel may be writing without a call that waits for it.
    pub queues: Queues,
    /// The program bytes from which fragments were made that other processes may change.
    pub checked: rustc_hash::FxHashMap<FragmentId, Vec<u8>>,
    /// Which shared memory other processes may write.
    pub lending: Lending,
    /// What is kept of them between runs, if anything is.
    pub persistence: Option<Persistence>,
}

impl Code {
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
    code: Mutex<Code>,
    /// The gates; they never move.
    pub gates: Gates,
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
    pub dynamic_loader: Range<u64>,
    /// Whether the kernel lets user code write the GS base.
    pub fsgsbase: bool,
    /// The program break: its start and its current end.
    pub program_break: Mutex<(u64, u64)>,
    /// What signals do.
    pub actions: Arc<Actions>,
    /// All threads that run program code.
    pub threads: Mutex<Vec<ThreadHandle>>,
    /// How many threads there are.
    pub thread_count: AtomicUsize,
    /// Threads created so far: the next one's number.
    pub next_thread: AtomicU64,
    /// Set when the process is ending: threads park at their next exit.
    pub ending: AtomicUsize,
    /// Set in a process that was forked by an observed one.
    pub forked: AtomicUsize,
    /// The exit status of the first thread, which older kernels make the process's when the last
    /// thread ends.
    pub first_status: AtomicU64,
    /// Who listens to the run, or changes it.
    pub clients: Clients,
}

impl std::ops::Deref for Process {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

/// How the process finds one of its threads.
#[derive(Debug, Clone, Copy)]
pub struct ThreadHandle {
    /// The kernel's id in the namespace.
    pub tid: i32,
    /// The kernel's id of its process: a child may share the memory.
    pub process: i32,
    /// The number of the PID namespace to which the ids belong: 0 is that of the process.
    pub namespace: u32,
    /// Its state; valid while the handle is listed.
    pub thread: *mut Thread,
}

// SAFETY: the pointer is used only under the lock of the list, while its thread is alive.
unsafe impl Send for ThreadHandle {}

impl Facts {
    /// The number of a new thread, and as many bits of it as fit where threads have numbers. They
    /// begin anew after the last one, without those that threads still have.
    pub(crate) fn number_thread(&self) -> (u64, u32) {
        loop {
            let number = self.next_thread.fetch_add(1, Ordering::Relaxed);
            let short = number as u32;
            if number <= u64::from(u32::MAX) || !self.has_thread(short) {
                return (number, short);
            }
        }
    }

    fn has_thread(&self, number: u32) -> bool {
        let threads = self.threads.lock();
        // The first thread's is never given out again, for it stands for that.
        number == 0
            || threads.iter().any(|handle| {
                // SAFETY: the thread lives while it is listed; its number does not change.
                unsafe { (*handle.thread).number == number }
            })
    }
}

static PROCESS: OnceLock<Process> = OnceLock::new();

impl Process {
    /// Puts the parts together.
    #[must_use]
    pub fn new(code: Code, gates: Gates, facts: Facts) -> Process {
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
    pub fn code(&self) -> MutexGuard<'_, Code> {
        self.code.lock()
    }

    /// The same if that needs no waiting.
    pub fn try_code(&self) -> Option<MutexGuard<'_, Code>> {
        self.code.try_lock()
    }
}

impl Process {
    /// What code that is translated now finds spilled where indirect branches arrive.
    #[must_use]
    pub fn convention(&self) -> LookupConvention {
        self.clients.convention()
    }

    /// Makes all translations unreachable; those that come find `convention` where indirect branches
    /// arrive.
    pub fn clear_translations(&self, convention: LookupConvention) {
        let mut code = self.code();
        self.clients.clear_translations(&mut code.cache, convention);
    }

    /// Whether the process is ending.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire) != 0
    }
}
