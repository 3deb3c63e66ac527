//! What system calls do to the program's memory, and between its threads.

use unspool_engine::call::{Call, succeeded};
use unspool_engine::client::Exhausted;
use unspool_engine::detach;
use unspool_engine::thread::Thread;
use unspool_events::{Event, MemoryEffect, SyncOperation, Synchronisation, SystemCall, call_order};
use unspool_kernel::effects::{Completeness, Effect, memory_effects, planned_effects};
use unspool_kernel::guarded;
use unspool_kernel::layout::LIBRARY_END;

use crate::ownership::Owner;
use crate::schedule_noise;
use crate::shared_memory;
use crate::thread_trace::{ThreadTrace, of};
use crate::trace_buffer::TraceBuffer;
use crate::tracer::Tracer;

/// A system call begins.
pub(super) fn begins(tracer: &Tracer, thread: &Thread, call: &Call) {
    let Some(ThreadTrace { buffer, owner, .. }) = of(thread) else {
        return;
    };
    for (address, size) in watched_while_written(tracer, call) {
        // Who sees what the kernel writes there from now on does so later than this.
        tracer.ownership.own(buffer, owner, address, size);
    }
    if call_order(call.number as u32).gives.is_some() {
        own_channels(tracer, buffer, owner);
    }
    buffer.event(&Event::SystemCall(SystemCall::Entry {
        number: call.number as u32,
        arguments: call.arguments,
    }));
    if let Some(operation @ SyncOperation::FutexWake) = futex(call) {
        buffer.event(&Event::Synchronisation(Synchronisation {
            operation,
            object: call.arguments[0],
        }));
    }
    tracer.ownership.enter_safe(buffer, owner);
    schedule_noise::make();
}

/// A system call has ended.
pub(super) fn ends(tracer: &Tracer, thread: &mut Thread, call: &Call, result: i64) {
    let Some(trace) = of(thread) else {
        return;
    };
    let changes_mappings = changes_mappings(call);
    if changes_mappings && let Err(reached) = tracer.ownership.follow_mappings(thread.process) {
        tracer.end.note(Some(reached));
        detach::end_recording_next(thread, Exhausted(reached.to_string()));
    }
    let ThreadTrace { buffer, owner, .. } = &mut *trace;
    tracer.ownership.leave_safe(buffer, owner);
    if let Some(operation @ SyncOperation::FutexWait) = futex(call) {
        // Whoever ended the wait changed the word before: the wait's end comes later.
        tracer.ownership.own(buffer, owner, call.arguments[0], 4);
        buffer.event(&Event::Synchronisation(Synchronisation {
            operation,
            object: call.arguments[0],
        }));
    }
    if call_order(call.number as u32).takes.is_some() {
        own_channels(tracer, buffer, owner);
    }
    tell_effects(tracer, trace, call, result);
    let buffer = &mut trace.buffer;
    if let Some(mapped) = shared_memory::mapped(thread.process, call, result) {
        buffer.event(&mapped);
    }
    buffer.event(&Event::SystemCall(SystemCall::Exit {
        number: call.number as u32,
        result,
    }));
    buffer.follow_selection();
    if changes_mappings {
        tracer
            .modules
            .follow(&tracer.functions, thread.process, buffer, call, result);
    }
}

/// Who learns something of others by a system call or a signal does so later than they have told it,
/// whichever memory either touches: to both this is an access to one line, at the end of where the
/// vDSO is. (The owner words near that of a line become accessible: those of the first lines lie
/// where wild pointers lead.)
pub(super) fn own_channels(tracer: &Tracer, buffer: &mut TraceBuffer, owner: &mut Owner) {
    const CHANNELS: u64 = LIBRARY_END - 64;
    tracer.ownership.own(buffer, owner, CHANNELS, 1);
}

/// Tells which memory the kernel has read and written.
fn tell_effects(tracer: &Tracer, trace: &mut ThreadTrace, call: &Call, result: i64) {
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
        trace.buffer.event(&memory(true, 0, u64::MAX));
    }
    if let Some(range) = unspool_engine::syscalls::memory_written(call, result) {
        effects.push(Effect {
            write: true,
            address: range.start,
            size: range.end - range.start,
        });
    }
    for Effect {
        write,
        address,
        size,
    } in effects
    {
        match write {
            true => tell_written(tracer, trace, address, size),
            false => trace.buffer.event(&memory(false, address, size)),
        }
    }
    for (address, size) in replaced_memory(call, result) {
        trace.buffer.event(&memory(true, address, size));
    }
}

/// Memory is written, or has been, on the program's behalf: whoever sees the values comes later.
pub(super) fn tell_written(tracer: &Tracer, trace: &mut ThreadTrace, address: u64, size: u64) {
    let ThreadTrace { buffer, owner, .. } = trace;
    tracer.ownership.own(buffer, owner, address, size);
    buffer.event(&memory(true, address, size));
}

fn memory(write: bool, address: u64, size: u64) -> Event {
    Event::MemoryEffect(MemoryEffect {
        write,
        address,
        size,
    })
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

/// What the kernel may write in a call while other threads look at it, by address and size. Futex
/// words (of locks with priority inheritance, and the second one of `FUTEX_WAKE_OP`) are looked at
/// at any time, without a call. Other memory seldom is, and taking all that a call may write costs
/// more than most calls: only where values are recorded, each of which has to be explained.
fn watched_while_written(tracer: &Tracer, call: &Call) -> impl Iterator<Item = (u64, u64)> {
    /// Programs name sizes that they have no memory for.
    const MOST_BYTES: u64 = 1 << 20;
    let mut effects = Vec::new();
    if call.number as i64 == libc::SYS_futex || tracer.recording.records_values() {
        planned_effects(call.number, call.arguments, &guarded::read, &mut effects);
    }
    let written = effects.into_iter().filter(|effect| effect.write);
    written.map(|effect| (effect.address, effect.size.min(MOST_BYTES)))
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
