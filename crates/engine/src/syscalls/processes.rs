//! New threads and processes: what each request comes to.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use unspool_kernel::ids::Tid;

use super::Run;
use super::fork::fork;
use super::new_thread::{NewThread, list, tell_ids};
use super::shared_memory_child;
use super::threads::set_program_fs;
use super::vfork::vfork;
use crate::call::Call;
use crate::call::clone_request::CloneRequest;
use crate::client::Inherited;
use crate::filters::install::catch_up;
use crate::process::Process;
use crate::signal_handling::SignalStack;
use crate::signal_handling::{open, settle};
use crate::signals::{self, STOP, bit};
use crate::thread::{AddressSpaceRole, Thread};
use crate::{detach, finish};

/// `clone`, `clone3`, `fork` and `vfork`.
#[inline(never)]
pub(super) fn clone(process: &'static Process, thread: &mut Thread, call: &Call, run: Run) -> i64 {
    let request = match CloneRequest::read(call) {
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

fn new_thread(
    process: &'static Process,
    thread: &mut Thread,
    request: CloneRequest,
    run: Run,
) -> i64 {
    let ordinal = process.next_ordinal();
    let inherited = match Inherited::from(thread, ordinal) {
        Ok(inherited) => inherited,
        Err(exhausted) => return detach::end_recording(thread, &exhausted),
    };
    let new_thread = NewThread::new(thread, request, ordinal.id(), Arc::clone(&inherited), run);
    process.thread_count.fetch_add(1, Ordering::AcqRel);
    let (announce, announced) = std::sync::mpsc::sync_channel(1);
    // The new thread must not take signals before it is ready for them.
    signals::block_all();
    let spawned = std::thread::Builder::new()
        .stack_size(process.clients.stack_size())
        .spawn(move || run_thread(process, new_thread, &announce));
    let result = match spawned {
        Ok(_detached) => wait_for_start(thread, &announced),
        Err(error) => {
            process.thread_count.fetch_sub(1, Ordering::AcqRel);
            inherited.not_needed(&process.clients, ordinal.id());
            -i64::from(error.raw_os_error().unwrap_or(libc::EAGAIN))
        }
    };
    open(thread);
    result
}

/// Waits until a new thread is one of the program's: clients have been told of it then. Returns what the
/// program's call does.
fn wait_for_start(thread: &Thread, announced: &Receiver<Tid>) -> i64 {
    /// What takes longer is watched: signals wait, here and there.
    const USUAL: Duration = Duration::from_secs(1);
    let mut told = announced.recv_timeout(USUAL).ok();
    if told.is_none() {
        let _watches: Vec<_> = thread.clients().iter().map(|it| it.start_waits()).collect();
        told = announced.recv().ok();
    }
    told.map_or(-i64::from(libc::EAGAIN), |tid| i64::from(tid.get()))
}

fn run_thread(
    process: &'static Process,
    mut new_thread: NewThread,
    announce: &std::sync::mpsc::SyncSender<Tid>,
) {
    // The C library starts every thread with the signal open that it cancels threads by.
    signals::block_all();
    let _stack = SignalStack::install();
    let mut thread = new_thread.install(process);
    Thread::set_current(&mut thread);
    list(process, &mut thread);
    catch_up(process, &thread, &new_thread.filters);
    // Clients find it there from the start.
    thread.slots().program_fs.set(new_thread.fs);
    // What the client does meanwhile can be asked for.
    signals::set_exact_mask(!signals::SYNCHRONOUS & !bit(STOP));
    new_thread.inherited.thread_starts(&mut thread);
    signals::block_all();
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
