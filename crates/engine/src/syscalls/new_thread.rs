//! What a new thread starts with, in whichever process, and where it is known.

use std::sync::Arc;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::gates::initialise_vectors;
use unspool_events::ThreadId;
use unspool_kernel::guarded;
use unspool_kernel::ids::{Pid, Tid};

use super::Run;
use crate::call::clone_request::CloneRequest;
use crate::client::{self, Inherited};
use crate::process::{PidNamespace, Process, ThreadHandle};
use crate::seccomp::ThreadFilters;
use crate::signals::actions;
use crate::thread::Thread;

/// What a new thread starts with.
pub(super) struct NewThread {
    registers: [u64; 16],
    flags: u64,
    pc: u64,
    vectors: crate::signal_handling::frame::FullState,
    pub(super) fs: u64,
    gs: u64,
    mask: u64,
    id: ThreadId,
    pub(super) request: CloneRequest,
    pub(super) actions: Arc<actions::Actions>,
    pub(super) inherited: Arc<Inherited>,
    pub(super) run: Run,
    /// The namespace of the parent.
    pub(super) namespace: PidNamespace,
    /// What judges the parent's calls.
    pub(super) filters: Arc<ThreadFilters>,
}

// SAFETY: plain data.
unsafe impl Send for NewThread {}

impl NewThread {
    /// The state of a thread that is like `thread`, as far as the request wants it so.
    pub(super) fn new(
        thread: &Thread,
        request: CloneRequest,
        id: ThreadId,
        inherited: Arc<Inherited>,
        run: Run,
    ) -> NewThread {
        let own = thread.slots();
        let mut registers = own.registers();
        registers[usize::from(gpr::RAX)] = 0;
        if request.stack != 0 {
            registers[usize::from(gpr::RSP)] = request.stack;
        }
        NewThread {
            registers,
            flags: own.flags.get(),
            pc: own.pc.get(),
            vectors: crate::signal_handling::frame::FullState::capture(thread),
            fs: if request.has(libc::CLONE_SETTLS) {
                request.tls
            } else {
                own.program_fs.get()
            },
            gs: own.program_gs.get(),
            mask: thread.delivery.mask(),
            id,
            actions: actions_of_child(thread, &request),
            request,
            namespace: thread.namespace,
            inherited,
            run,
            filters: Arc::clone(&thread.filters),
        }
    }

    /// Gives the state to the thread that runs here.
    pub(super) fn install(&mut self, process: &'static Process) -> Thread {
        let mut thread = Thread::new(process, self.id, self.mask, Arc::clone(&self.actions));
        thread.filters = Arc::new(self.filters.inherited());
        let slots = thread.slots();
        initialise_vectors(slots, process.vectors);
        slots.set_registers(&self.registers);
        slots.flags.set(self.flags);
        slots.pc.set(self.pc);
        slots.program_gs.set(self.gs);
        thread.namespace = self.namespace;
        if self.request.has(libc::CLONE_CHILD_CLEARTID) {
            thread.clear_tid = self.request.child_tid;
        }
        self.vectors.install(&thread);
        thread
    }
}

/// What signals do in a child that shares the memory.
pub(super) fn actions_of_child(thread: &Thread, request: &CloneRequest) -> Arc<actions::Actions> {
    match request.has(libc::CLONE_SIGHAND) {
        true => Arc::clone(&thread.actions),
        false => Arc::new(thread.actions.duplicate()),
    }
}

/// Writes the new thread's id to where its parent and it itself are to find it. `outer` is the
/// id that the parent sees.
pub(super) fn tell_ids(thread: &mut Thread, request: &CloneRequest, outer: Tid) {
    for (flag, place, tid) in [
        (libc::CLONE_PARENT_SETTID, request.parent_tid, outer),
        (libc::CLONE_CHILD_SETTID, request.child_tid, thread.tid),
    ] {
        if request.has(flag) {
            client::memory_written(thread, place, 4);
            let _ = guarded::write(place, &tid.get().to_le_bytes());
        }
    }
}

/// Puts a thread on the list of threads that run program code.
pub(crate) fn list(process: &Process, thread: &mut Thread) {
    let ids = (Pid::own(), thread.tid);
    list_as(process, thread, ids, thread.namespace);
}

/// Likewise, with the ids of its process and its own that threads of a namespace use.
pub(super) fn list_as(
    process: &Process,
    thread: &mut Thread,
    ids: (Pid, Tid),
    namespace: PidNamespace,
) {
    let handle = ThreadHandle {
        tid: ids.1,
        process: ids.0,
        namespace,
        thread,
    };
    crate::threads::enlist(&mut process.threads.lock(), handle);
}

pub(super) fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EAGAIN)
}
