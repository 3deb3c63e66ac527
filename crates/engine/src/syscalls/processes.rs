//! New threads and processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::gates::initialise_vectors;
use unspool_kernel::guarded;

use super::Run;
use super::fork::fork;
use super::shared_memory_child;
use super::threads::set_program_fs;
use super::vfork::vfork;
use crate::call::Call;
use crate::call::clone_request::Request;
use crate::client::{self, Inherited};
use crate::filters::install::catch_up;
use crate::process::{Process, ThreadHandle};
use crate::seccomp::ThreadFilters;
use crate::signal_handling::SignalStack;
use crate::signal_handling::{open, settle};
use crate::signals::actions;
use crate::thread::{AddressSpaceRole, Thread};
use crate::{detach, finish};

/// `clone`, `clone3`, `fork` and `vfork`.
#[inline(never)]
pub(super) fn clone(process: &'static Process, thread: &mut Thread, call: &Call, run: Run) -> i64 {
    let request = match Request::read(call) {
        Ok(request) => request,
        Err(error) => return error,
    };
    match (
        request.has(libc::CLONE_VM),
        request.has(libc::CLONE_THREAD),
        request.has(libc::CLONE_VFORK),
    ) {
        (true, true, _) if thread.role != AddressSpaceRole::Process => {
            unspool_kernel::diagnostics::say(
                "unspool: a process that shares its parent's memory asks for a thread of its own; \
                 it gets none, because this is not supported under observation",
            );
            -i64::from(libc::EAGAIN)
        }
        (true, true, _) if request.is_ordinary_thread() => {
            new_thread(process, thread, request, run)
        }
        (true, true, _) | (true, false, false) => {
            shared_memory_child::start(process, thread, request, run)
        }
        (true, false, true) => vfork(thread, &request, run),
        (false, _, _) => fork(process, thread, &request),
    }
}

/// What a new thread starts with.
pub(super) struct NewThread {
    registers: [u64; 16],
    flags: u64,
    pc: u64,
    vectors: crate::signal_handling::frame::FullState,
    pub(super) fs: u64,
    gs: u64,
    mask: u64,
    number: u32,
    pub(super) request: Request,
    pub(super) actions: Arc<actions::Actions>,
    pub(super) inherited: Arc<Inherited>,
    pub(super) run: Run,
    /// The namespace of the parent.
    pub(super) namespace: u32,
    /// What judges the parent's calls.
    pub(super) filters: Arc<ThreadFilters>,
}

// SAFETY: plain data.
unsafe impl Send for NewThread {}

impl NewThread {
    /// The state of a thread that is like `thread`, as far as the request wants it so.
    pub(super) fn new(
        thread: &Thread,
        request: Request,
        number: u32,
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
            number,
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
        let mut thread = Thread::new(process, self.number, self.mask, Arc::clone(&self.actions));
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
pub(super) fn actions_of_child(thread: &Thread, request: &Request) -> Arc<actions::Actions> {
    match request.has(libc::CLONE_SIGHAND) {
        true => Arc::clone(&thread.actions),
        false => Arc::new(thread.actions.duplicate()),
    }
}

fn new_thread(process: &'static Process, thread: &mut Thread, request: Request, run: Run) -> i64 {
    let (count, number) = process.number_thread();
    let inherited = match Inherited::from(thread, (count, number)) {
        Ok(inherited) => inherited,
        Err(exhausted) => return detach::end_recording(thread, &exhausted),
    };
    let new_thread = NewThread::new(thread, request, number, Arc::clone(&inherited), run);
    process.thread_count.fetch_add(1, Ordering::AcqRel);
    let (announce, announced) = std::sync::mpsc::sync_channel(1);
    // The new thread must not take signals before it is ready for them.
    crate::signals::block_all();
    let spawned = std::thread::Builder::new()
        .stack_size(process.clients.stack_size())
        .spawn(move || run_thread(process, new_thread, &announce));
    let result = match spawned {
        Ok(_detached) => announced.recv().map_or(-i64::from(libc::EAGAIN), i64::from),
        Err(error) => {
            process.thread_count.fetch_sub(1, Ordering::AcqRel);
            inherited.not_needed(&process.clients, number);
            -i64::from(error.raw_os_error().unwrap_or(libc::EAGAIN))
        }
    };
    open(thread);
    result
}

fn run_thread(
    process: &'static Process,
    mut new_thread: NewThread,
    announce: &std::sync::mpsc::SyncSender<i32>,
) {
    // The C library starts every thread with the signal open that it cancels threads by.
    crate::signals::block_all();
    let _stack = SignalStack::install();
    let mut thread = new_thread.install(process);
    Thread::set_current(&mut thread);
    list(process, &mut thread);
    catch_up(process, &thread, &new_thread.filters);
    new_thread.inherited.thread_starts(&mut thread);
    let tid = thread.tid;
    tell_ids(&mut thread, &new_thread.request, tid);
    set_program_fs(process, &mut thread, new_thread.fs);
    // The parent may be gone by now; nobody waits then.
    let _ = announce.send(thread.tid);
    settle(&mut thread);
    open(&thread);
    let status = (new_thread.run)(&mut thread);
    finish::end_thread(process, &mut thread, status);
}

/// Writes the new thread's id to where its parent and it itself are to find it. `outer` is the
/// id that the parent sees.
pub(super) fn tell_ids(thread: &mut Thread, request: &Request, outer: i32) {
    for (flag, place, tid) in [
        (libc::CLONE_PARENT_SETTID, request.parent_tid, outer),
        (libc::CLONE_CHILD_SETTID, request.child_tid, thread.tid),
    ] {
        if request.has(flag) {
            client::memory_written(thread, place, 4);
            let _ = guarded::write(place, &tid.to_le_bytes());
        }
    }
}

/// Puts a thread on the list of threads that run program code.
pub(crate) fn list(process: &Process, thread: &mut Thread) {
    let ids = (std::process::id() as i32, thread.tid);
    list_as(process, thread, ids, thread.namespace);
}

/// Likewise, with the ids of its process and its own that threads of a namespace use.
pub(super) fn list_as(process: &Process, thread: &mut Thread, ids: (i32, i32), namespace: u32) {
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
