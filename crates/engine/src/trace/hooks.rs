//! What the engine tells the trace.

use std::sync::atomic::Ordering;

use unspool_events::{Event, SyncOperation, ThreadId};

use super::thread_trace::{Buffer, ThreadTrace};
use super::{Reached, Tracer, modules, shared_memory, summary, values};
use crate::cache::Exit;
use crate::effects::{Completeness, Effect, memory_effects};
use crate::finish::Ending;
use crate::guarded;
use crate::process::Process;
use crate::signals::broken_pipe;
use crate::syscalls::{Call, succeeded};
use crate::thread::Thread;

fn tracer() -> Option<&'static Tracer> {
    Process::try_get()?.trace.as_ref()
}

/// The tracer and the thread's trace, if there is one.
pub(super) fn of(thread: &mut Thread) -> Option<(&'static Tracer, &'static mut ThreadTrace)> {
    // SAFETY: the trace belongs to this thread, or to its parent that waits; the reference
    // does not outlive the hook.
    let trace = unsafe { thread.trace.as_mut() }?;
    Some((tracer()?, trace))
}

/// Adds an event to the thread's trace.
pub(crate) fn event(thread: &mut Thread, event: &Event) {
    if let Some((tracer, trace)) = of(thread) {
        trace.event(tracer, event);
    }
}

/// What a thread knows of the one that has started it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Birth {
    parent: u32,
    /// The parent's time.
    after: u64,
    /// Memory for what it records.
    buffer: Option<Buffer>,
}

/// The thread is about to run its first instruction.
pub(crate) fn thread_starts(thread: &mut Thread, birth: Option<Birth>) {
    let Some(tracer) = tracer() else { return };
    let parent = birth.map(|birth| birth.parent);
    let mut trace = ThreadTrace::new(
        tracer,
        ThreadId(thread.number),
        thread.slots,
        birth.and_then(|birth| birth.buffer),
    );
    tracer.skew.begin(thread, &mut trace);
    thread.trace = Box::into_raw(trace);
    tracer.adopt(thread, birth.map(|birth| birth.after));
    let start = Event::ThreadStart {
        os_thread: thread.tid as u32,
        parent: parent.map(ThreadId),
    };
    event(thread, &start);
    if let (None, Some((_, trace))) = (parent, of(thread)) {
        // Nobody's creation of it tells a reader of the stream that it is there.
        trace.empty();
        trace.flush();
    }
    if tracer.plan.verify {
        // SAFETY: the slots belong to this thread.
        let address = unsafe { (*thread.slots).program_fs };
        event(thread, &Event::ThreadPointer { address });
    }
    modules::tell(tracer, thread);
    if parent.is_none() {
        tracer.start_keeper();
    }
}

/// The thread has run its last instruction.
pub(crate) fn thread_ends(thread: &mut Thread) {
    if thread.trace.is_null() {
        return;
    }
    event(thread, &Event::ThreadEnd);
    conclude(thread);
}

/// Gives everything to the file and frees the thread's trace.
fn conclude(thread: &mut Thread) {
    let Some((tracer, trace)) = of(thread) else {
        return;
    };
    trace.empty();
    tracer.skew.end(thread.number);
    tracer.release(thread);
    if let Some(encoder) = trace.encoder.take() {
        broken_pipe::kept_from_program(|| encoder.finish());
    }
    // SAFETY: the pointer came from a box, and nobody else has it.
    drop(unsafe { Box::from_raw(std::mem::replace(&mut thread.trace, std::ptr::null_mut())) });
}

/// The thread stops for good because the process ends.
pub(crate) fn thread_parks(thread: &mut Thread) {
    if thread.place != crate::thread::Place::ParentsPlace {
        conclude(thread);
    }
}

/// The process ends, or becomes another program: the file gets its index, the user a summary.
pub(crate) fn finish(process: &Process, thread: &mut Thread, ending: Ending) {
    let Some(tracer) = &process.trace else { return };
    event(thread, &Event::ThreadEnd);
    conclude(thread);
    tracer.keeper.dismiss();
    broken_pipe::kept_from_program(|| {
        summary::conclude(tracer, process, ending);
    });
}

/// A signal handler is about to run.
pub(crate) fn context_change(thread: &mut Thread, signal: i32) {
    event(
        thread,
        &Event::ContextChange {
            signal: signal as u32,
        },
    );
}

/// The program's FS base changed.
pub(crate) fn thread_pointer_changed(thread: &mut Thread, address: u64) {
    event(thread, &Event::ThreadPointer { address });
}

/// The thread is about to create another one, which this is to be given to. Fails where the trace
/// has come to its end.
pub(crate) fn thread_created(thread: &mut Thread, number: u64) -> Result<Birth, Reached> {
    let parent = thread.number;
    let Some((tracer, _)) = of(thread) else {
        return Ok(Birth {
            parent,
            after: 0,
            buffer: None,
        });
    };
    if number >= u64::from(tracer.ceilings.thread_numbers) {
        return Err(Reached::ThreadNumbers);
    }
    let buffer = Buffer::map(tracer).map_err(|_| Reached::BufferMemory)?;
    tracer.expect_thread().inspect_err(|_| buffer.unmap())?;
    let create = Event::Sync {
        operation: SyncOperation::ThreadCreate,
        object: number,
    };
    event(thread, &create);
    tracer.begin_sharing();
    // The new thread's time begins after this event.
    let after = tracer.enter_safe(thread);
    Ok(Birth {
        parent,
        after,
        buffer: Some(buffer),
    })
}

/// The thread whose creation is in the trace could not be started: its stream is empty, so
/// that readers do not wait for it.
pub(crate) fn thread_not_started(number: u32, birth: Birth) {
    if let Some(tracer) = tracer() {
        if let Some(buffer) = birth.buffer {
            buffer.unmap();
        }
        tracer.abandon();
        let encoder = tracer.writer.lock().thread(ThreadId(number));
        encoder.finish();
    }
}

/// The engine is about to write program memory on the kernel's behalf.
pub(crate) fn memory_written(thread: &mut Thread, address: u64, size: u64) {
    if let Some(tracer) = tracer() {
        super::ownership::own(tracer, thread, address, size);
    }
    event(
        thread,
        &Event::SystemMemory {
            write: true,
            address,
            size,
        },
    );
}

/// A system call is over that has no result: `rt_sigreturn`, or the thread's end, which is
/// still to be announced.
pub(crate) fn system_call_left(thread: &mut Thread) {
    if let Some((tracer, _)) = of(thread) {
        tracer.leave_safe(thread);
    }
}

/// The thread, out of the cache, waits for others.
pub(crate) fn begin_wait(thread: &mut Thread) {
    if let Some((tracer, _)) = of(thread) {
        tracer.enter_safe(thread);
    }
}

/// It goes on.
pub(crate) fn end_wait(thread: &mut Thread) {
    if let Some((tracer, _)) = of(thread) {
        tracer.leave_safe(thread);
    }
}

/// The thread is in the code cache from now on, or looks for its way there.
pub(crate) fn enters(thread: &mut Thread) {
    let Some((tracer, trace)) = of(thread) else {
        return;
    };
    tracer.pass_barrier(thread, trace);
    let generation = tracer.generation.load(Ordering::SeqCst);
    if generation != trace.generation {
        trace.generation = generation;
        trace.enter_generation();
    }
}

/// The thread has come out of the code cache.
pub(crate) fn goes_outside(thread: &mut Thread) {
    if let Some((tracer, trace)) = of(thread) {
        tracer.show_outside(trace);
    }
}

/// Whether all threads are to come out of the code cache.
pub(crate) fn wants_all_outside() -> bool {
    tracer().is_some_and(Tracer::wants_to_meet)
}

/// All threads are outside the code cache, and stay there meanwhile.
pub(crate) fn all_outside(thread: &mut Thread) {
    if let Some((tracer, _)) = of(thread) {
        tracer.meet(thread);
    }
}

/// No translation is left that refers to what the trace knows of fragments.
pub(crate) fn translations_gone() {
    if let Some(tracer) = tracer() {
        tracer.fragments.lock().clear();
        tracer.value_services.lock().clear();
        tracer.ownership.forget_sites();
        tracer.begin_generation();
    }
}

/// A child that shares the memory begins to run code in its parent's place.
pub(crate) fn vfork_child_starts(thread: &mut Thread) {
    if let Some((tracer, _)) = of(thread) {
        tracer.leave_safe(thread);
    }
}

/// It is about to leave.
pub(crate) fn vfork_child_leaves(thread: &mut Thread) {
    if let Some((tracer, _)) = of(thread) {
        tracer.enter_safe(thread);
    }
}

/// A system call begins.
pub(crate) fn system_call_entry(thread: &mut Thread, call: &Call) {
    let Some((tracer, trace)) = of(thread) else {
        return;
    };
    let entry = Event::SystemCallEntry {
        number: call.number as u32,
        arguments: call.arguments,
    };
    trace.event(tracer, &entry);
    if let Some(operation @ SyncOperation::FutexWake) = futex(call) {
        trace.event(
            tracer,
            &Event::Sync {
                operation,
                object: call.arguments[0],
            },
        );
    }
    tracer.enter_safe(thread);
}

/// A system call ended.
pub(crate) fn system_call_exit(thread: &mut Thread, call: &Call, result: i64) {
    if of(thread).is_none() {
        return;
    }
    let Some(tracer) = tracer() else { return };
    let changes_mappings = changes_mappings(call);
    if changes_mappings {
        tracer.follow_mappings();
    }
    tracer.leave_safe(thread);
    let Some((tracer, trace)) = of(thread) else {
        return;
    };
    if let Some(operation @ SyncOperation::FutexWait) = futex(call) {
        // Whoever ended the wait changed the word before: the wait's end comes later.
        super::ownership::own(tracer, thread, call.arguments[0], 4);
        trace.event(
            tracer,
            &Event::Sync {
                operation,
                object: call.arguments[0],
            },
        );
    }
    let mut effects = Vec::new();
    let completeness = memory_effects(
        call.number,
        call.arguments,
        result,
        &guarded::read,
        &mut effects,
    );
    if completeness == Completeness::Unknown {
        // Whatever the arguments point to may have been written: said as one access to everything.
        let everything = Event::SystemMemory {
            write: true,
            address: 0,
            size: u64::MAX,
        };
        trace.event(tracer, &everything);
    }
    if let Some(range) = crate::syscalls::memory_written(call, result) {
        effects.push(Effect {
            write: true,
            address: range.start,
            size: range.end - range.start,
        });
    }
    for effect in effects {
        if effect.write {
            super::ownership::own(tracer, thread, effect.address, effect.size);
        }
        let memory = Event::SystemMemory {
            write: effect.write,
            address: effect.address,
            size: effect.size,
        };
        trace.event(tracer, &memory);
    }
    for (address, size) in replaced_memory(call, result) {
        trace.event(
            tracer,
            &Event::SystemMemory {
                write: true,
                address,
                size,
            },
        );
    }
    if let Some(mapped) = shared_memory::mapped(call, result) {
        trace.event(tracer, &mapped);
    }
    trace.event(
        tracer,
        &Event::SystemCallExit {
            number: call.number as u32,
            result,
        },
    );
    trace.set_recording(tracer.should_record(trace.registered));
    if changes_mappings {
        modules::follow(tracer, thread, call, result);
    }
}

fn futex(call: &Call) -> Option<SyncOperation> {
    const COMMAND: u64 = 0x7f;
    if call.number as i64 != libc::SYS_futex {
        return None;
    }
    match (call.arguments[1] & COMMAND) as i32 {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI => {
            Some(SyncOperation::FutexWait)
        }
        libc::FUTEX_WAKE
        | libc::FUTEX_WAKE_BITSET
        | libc::FUTEX_WAKE_OP
        | libc::FUTEX_UNLOCK_PI => Some(SyncOperation::FutexWake),
        _ => None,
    }
}

/// Whether memory may be at other addresses behind a system call than before.
fn changes_mappings(call: &Call) -> bool {
    matches!(
        call.number as i64,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_shmat
            | libc::SYS_shmdt
            | libc::SYS_remap_file_pages
    )
}

/// Ranges whose contents a system call replaced that is about memory.
fn replaced_memory(call: &Call, result: i64) -> Vec<(u64, u64)> {
    let [first, second, third, ..] = call.arguments;
    if !succeeded(result) {
        return Vec::new();
    }
    match call.number as i64 {
        libc::SYS_mmap => vec![(result as u64, second)],
        libc::SYS_munmap | libc::SYS_madvise => vec![(first, second)],
        libc::SYS_mremap => vec![(first, second), (result as u64, third)],
        _ => Vec::new(),
    }
}

/// Code in the middle of a fragment calls the engine. Returns where it goes on.
pub(crate) fn service(thread: &mut Thread, exit: &Exit) -> Option<u64> {
    let tracer = tracer()?;
    if exit.detail & super::ownership::SERVICE_BIT != 0 {
        return super::ownership::serve(tracer, thread, exit);
    }
    values::serve(tracer, thread, exit);
    Some(u64::from(exit.stub))
}

/// The thread comes out of the cache because somebody asked for it.
pub(crate) fn interrupted(thread: &mut Thread) {
    if let Some((tracer, trace)) = of(thread) {
        trace.set_recording(tracer.should_record(trace.registered));
    }
}

/// The process is about to fork.
pub(crate) fn before_fork(thread: &mut Thread) {
    if let Some((_, trace)) = of(thread) {
        trace.empty();
    }
}

/// The process has forked; in the child `child` is 0.
pub(crate) fn after_fork(thread: &mut Thread, child: i64) {
    if child != 0 {
        forked(thread, child);
        return;
    }
    let Some(tracer) = tracer() else { return };
    if thread.trace.is_null() {
        return;
    }
    // The parent's records are the parent's: they are dropped unwritten. Its encoder is
    // left alone, because another of its threads may have been using what they share.
    // SAFETY: the pointer came from a box, and nobody else in this process has it.
    let mut parents = unsafe { Box::from_raw(thread.trace) };
    thread.trace = std::ptr::null_mut();
    std::mem::forget(parents.encoder.take());
    drop(parents);
    tracer.start_child();
    tracer.forget_owners(true);
    tracer.skew.forget_others();
    Process::get().code().cache.clear(tracer.arrival());
    thread_starts(thread, None);
    // SAFETY: the slots belong to this thread.
    let address = unsafe { (*thread.slots).program_fs };
    event(thread, &Event::ThreadPointer { address });
    shared_memory::inherited(thread);
}

/// The process goes on after [`finish`]: what it does is recorded in a file of its own, as a
/// child's is. The other threads stand still, and have ended their traces.
pub(crate) fn begin_again(thread: &mut Thread) {
    let Some(tracer) = tracer() else { return };
    tracer.start_child();
    tracer.forget_owners(false);
    tracer.skew.forget_others();
    Process::get().code().cache.clear(tracer.arrival());
    starts_again(thread);
}

/// The thread goes on after [`thread_parks`].
pub(crate) fn starts_again(thread: &mut Thread) {
    if tracer().is_none() {
        return;
    }
    thread_starts(thread, None);
    // SAFETY: the slots belong to this thread.
    let address = unsafe { (*thread.slots).program_fs };
    event(thread, &Event::ThreadPointer { address });
}

/// A child process was started.
pub(crate) fn forked(thread: &mut Thread, child: i64) {
    if let Some((tracer, trace)) = of(thread)
        && let Some(standing) = &trace.standing
    {
        // A child in the parent's place may have died at rest.
        standing.wake(tracer);
    }
    if child > 0 {
        if let Some(tracer) = tracer() {
            tracer.has_forked.store(true, Ordering::Relaxed);
        }
        event(
            thread,
            &Event::Fork {
                child: child as u32,
            },
        );
    }
}
