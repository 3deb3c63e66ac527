//! How threads come and go.

use std::sync::atomic::Ordering;

use unspool_engine::client::Inheritance;
use unspool_engine::process::ThreadOrdinal;
use unspool_engine::thread::Thread;
use unspool_events::{Event, ProcessEvent, SyncOperation, Synchronisation, ThreadEvent, ThreadId};

use crate::call_stack;
use crate::ceilings::Reached;
use crate::thread_progress::ThreadProgress;
use crate::thread_trace::{self, ThreadTrace, of};
use crate::trace_buffer::{BufferMemory, TraceBuffer};
use crate::tracer::{Tracer, tracer};

/// What a thread knows of the one that has started it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Birth {
    parent: ThreadId,
    /// The parent's time.
    after: u64,
    /// Memory for what it records.
    pub(super) memory: Option<BufferMemory>,
}

impl Birth {
    pub(super) fn of(inheritance: Option<&Inheritance>) -> Option<Birth> {
        inheritance?.downcast_ref::<Birth>().copied()
    }
}

/// Adds an event to the thread's trace.
pub(super) fn event(thread: &Thread, event: &Event) {
    if let Some(trace) = of(thread) {
        trace.buffer.event(event);
    }
}

/// Where the calling thread stands.
pub(super) fn own_progress() -> Option<&'static ThreadProgress> {
    // SAFETY: the pointer is null or this thread's own.
    let thread = unsafe { Thread::current().as_ref() }?;
    // The trace, or that of the parent that waits, ends behind the thread's rest.
    of(thread)?.buffer.progress.as_deref()
}

/// The thread is about to execute its first instruction.
pub(super) fn begin(thread: &mut Thread, birth: Option<Birth>) {
    let Some(tracer) = tracer() else { return };
    let parent = birth.map(|birth| birth.parent);
    let id = thread.id;
    let memory = birth.and_then(|birth| birth.memory);
    let buffer = TraceBuffer::new(&tracer.recording, id, thread.slots(), memory);
    let mut trace = ThreadTrace::new(buffer);
    tracer.skew.begin(thread.id, &mut trace.buffer);
    thread_trace::keep(thread, trace);
    let Some(ThreadTrace { buffer, owner, .. }) = of(thread) else {
        return;
    };
    let after = birth.map(|birth| birth.after);
    tracer.ownership.adopt(buffer, owner, after);
    buffer.event(&Event::Thread(ThreadEvent::Start {
        os_thread: thread.tid.get() as u32,
        parent,
    }));
    if parent.is_none() {
        // Nobody's creation of it tells a reader of the stream that it is there.
        buffer.empty();
        buffer.flush();
    }
    // By that programs name the threads that they give to functions.
    if tracer.recording.records_values() || !tracer.recording.plan.functions.is_empty() {
        buffer.event(&thread_pointer(tracer, thread));
    }
    tracer.modules.tell(thread.process, buffer);
    if parent.is_none() {
        tracer.keeper.start(&tracer.recording, &tracer.skew);
    }
}

/// What the calling thread accesses from now on is recorded, also where only what may be concurrent is
/// wanted: it is about to have company, or to tell of a call. It is outside of translated code, or where a
/// function begins.
pub(super) fn begin_accesses(tracer: &Tracer, thread: &Thread) {
    if !tracer.recording.begin_accesses() {
        return;
    }
    // What has been translated records nothing, and keeps no registers for that.
    thread.process.clear_translations();
    if let Some(trace) = of(thread) {
        trace.buffer.follow_selection();
        call_stack::record(thread, &mut trace.buffer);
    }
}

/// The thread is about to create another one, which this is to be given to. Fails where the
/// trace has come to its end.
pub(super) fn expect_child(
    tracer: &Tracer,
    thread: &Thread,
    ordinal: ThreadOrdinal,
) -> Result<Birth, Reached> {
    let parent = thread.id;
    let Some(ThreadTrace { buffer, owner, .. }) = of(thread) else {
        return Ok(Birth {
            parent,
            after: 0,
            memory: None,
        });
    };
    if ordinal.get() >= u64::from(tracer.ceilings.thread_numbers) {
        return Err(Reached::ThreadNumbers);
    }
    let memory = BufferMemory::map(tracer.recording.plan.buffer);
    let memory = memory.map_err(|_| Reached::BufferMemory)?;
    let expected = tracer.ownership.expect_thread();
    expected.inspect_err(|_| memory.unmap())?;
    buffer.event(&Event::Synchronisation(Synchronisation {
        operation: SyncOperation::ThreadCreate,
        object: ordinal.get(),
    }));
    tracer.ownership.begin_sharing(thread.process);
    // The new thread's time begins after this event.
    let after = tracer.ownership.enter_safe(buffer, owner);
    Ok(Birth {
        parent,
        after,
        memory: Some(memory),
    })
}

/// A child process was started, or could not be.
pub(super) fn forked(tracer: &Tracer, thread: &Thread, child: i64) {
    if let Some(progress) = of(thread).and_then(|trace| trace.buffer.progress.as_ref()) {
        // A child in the parent's place may have died at rest.
        progress.sleep.end(|| tracer.keeper.end_if_killed_at_work());
    }
    if child > 0 {
        tracer.has_forked.store(true, Ordering::Relaxed);
        let child = child as u32;
        event(thread, &Event::Process(ProcessEvent::Fork { child }));
    }
}

/// What the process does from here on goes to a file of its own; `alone`: it is a child, which has
/// no other threads. Else they have ended their traces.
pub(super) fn begin_file(tracer: &Tracer, thread: &Thread, alone: bool) {
    tracer.begin_file();
    tracer.ownership.forget(alone);
    if alone {
        tracer.check_sites.forget();
        tracer.recording.start_alone();
    }
    tracer.skew.forget_others();
    thread.process.clear_translations();
}

/// What says where the thread's own memory is.
pub(super) fn thread_pointer(tracer: &Tracer, thread: &Thread) -> Event {
    has_pointer(tracer, thread.slots().program_fs.get())
}

/// The same of a thread whose pointer is this.
pub(super) fn has_pointer(tracer: &Tracer, address: u64) -> Event {
    Event::Thread(ThreadEvent::Pointer {
        address,
        variables: Some(tracer.modules.thread_local_bytes()),
    })
}

/// Gives everything to the file and frees the thread's trace.
pub(super) fn conclude(tracer: &Tracer, thread: &mut Thread) {
    let Some(ThreadTrace { buffer, owner, .. }) = of(thread) else {
        return;
    };
    buffer.empty();
    tracer.skew.end(thread.id);
    tracer.ownership.release(buffer, owner);
    buffer.finish();
    drop(thread_trace::take(thread));
}
