//! The trace buffer: when it is full, and when a path is left in its middle.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::FragmentId;
use unspool_code_cache::cache::{Cache, Position};
use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::BOUND_SPILLS;
use unspool_engine::thread::Thread;
use unspool_events::PathId;
use unspool_events::raw::{SpecialKind, special_header};
use unspool_kernel::diagnostics;

use crate::fragments::{Fragments, Repetition};
use crate::slots as trace_slots;
use crate::thread_trace::ThreadTrace;
use crate::tickets::LOCK_SPILL;
use crate::trace_buffer::TraceBuffer;
use crate::tracer::Tracer;

const WORD: u64 = 8;

/// The buffer is full in the middle of a fragment: what is complete goes to the encoder, at once or soon,
/// the record in the making moves to the start.
pub(super) fn empty_buffer(tracer: &Tracer, trace: &mut ThreadTrace, thread: &mut Thread) {
    let buffer = &mut trace.buffer;
    if !buffer.take_full() {
        return;
    }
    let target = thread.slots().target();
    let fragment = thread.process.code().cache.fragment_at(target);
    let Some(fragment) = fragment else {
        diagnostics::fatal("the trace buffer overflowed outside translated code");
    };
    let known = &tracer.fragments.records;
    let register = known.with(fragment, |fragment| fragment.binding.buffer());
    let Some(register) = register else {
        diagnostics::fatal("the trace buffer overflowed in code that records nothing");
    };
    let start = thread.register(register);
    // Nobody can take a line from a thread in the middle of a fragment. So others would wait for as long
    // as whoever takes the records needs: they are handed over where the next superblock begins.
    if tracer.ownership.is_checking() && !buffer.has_set_aside() {
        let moved = buffer.make_room_until_poll(start, buffer.end - start);
        thread.set_register(register, moved);
        return;
    }
    let moved = buffer.make_room(start, buffer.end - start);
    thread.set_register(register, moved);
    tracer.skew.keep_close(thread.id, buffer);
}

/// A fragment is left between two of its instructions: what it recorded becomes a partial
/// record. The registers in the slots are those of the cache, spills not yet restored; without a place
/// they are those of a call into the engine.
pub(super) fn leave_mid_fragment(
    tracer: &Tracer,
    trace: &mut ThreadTrace,
    thread: &mut Thread,
    cache: &Cache,
    at: Option<CacheAddress>,
    position: Position,
) {
    if position.prologue {
        return;
    }
    let ThreadTrace { buffer, taken, .. } = trace;
    tracer
        .fragments
        .records
        .with(position.fragment, |fragment| {
            if position.index != 0 {
                tracer.fragments.forced_splits.note(position.pc);
            }
            release_lock(thread);
            let is_closed =
                |at: &CacheAddress| fragment.closed.is_somewhere() && *at >= fragment.closed;
            if let Some(at) = at.filter(is_closed) {
                // The position in the buffer, wherever it is now, is behind the record.
                let behind = bound_position(thread, cache, at, position.fragment);
                buffer.set_position(behind);
                return;
            }
            let mut start = match at {
                None => thread.register(fragment.binding.buffer()),
                Some(at) => bound_position(thread, cache, at, position.fragment),
            };
            let interrupted = fragment
                .repetitions
                .iter()
                .find(|repetition| !position.boundary && repetition.instruction == position.index);
            let (words, accessing) = match interrupted {
                None => fragment.progress[position.index as usize],
                Some(repetition) => {
                    if repetition.in_chunks && Some(repetition.place) == at {
                        // The count register is that of the chunk.
                        let rest = trace_slots::of(thread.slots()).rest.take();
                        let count = thread.register(gpr::RCX);
                        thread.set_register(gpr::RCX, count.wrapping_add(rest));
                    }
                    start = complete(thread, buffer, start, repetition);
                    let calls = &tracer.value_calls;
                    start = calls.take_mid_fragment(buffer, taken, start, repetition);
                    repetition.progress
                }
            };
            close_partial(buffer, fragment.first_path, start, (words, accessing));
        });
}

/// A function of another client's, which was called with all program state in place, has had the
/// program go on elsewhere: what was recorded until then becomes a partial record.
pub(super) fn leave_by_call(
    tracer: &Tracer,
    trace: &mut ThreadTrace,
    position: Position,
    completed: bool,
) {
    if position.prologue {
        return;
    }
    let buffer = &mut trace.buffer;
    tracer
        .fragments
        .records
        .with(position.fragment, |fragment| {
            let recorded = fragment.progress[position.index as usize + usize::from(completed)];
            close_partial(buffer, fragment.first_path, buffer.position(), recorded);
        });
}

/// Makes a partial record of so many words and accessing instructions, which starts at `start`.
fn close_partial(
    buffer: &mut TraceBuffer,
    first_path: PathId,
    start: u64,
    (words, accessing): (u8, u8),
) {
    let mut end = start;
    if accessing != 0 {
        let argument = u64::from(first_path.0) | u64::from(accessing) << 24;
        let header = special_header(SpecialKind::Partial, argument, usize::from(words));
        // SAFETY: the record lies in this thread's buffer: its words have been written, and
        // its header's place lies before them (or, without words, is checked here).
        unsafe {
            if words == 0 && start + WORD > buffer.end {
                buffer.hand_over(start);
                (buffer.base as *mut u64).write(header);
                end = buffer.base + WORD;
            } else {
                (start as *mut u64).write(header);
                end = start + WORD * (u64::from(words) + 1);
            }
        }
    }
    buffer.set_position(end);
}

/// Whether a place in the cache is that of a repeated string instruction: between two of its
/// rounds the state is the program's, as at a fault in its middle.
pub(super) fn is_between_rounds(
    fragments: &Fragments,
    at: CacheAddress,
    position: &Position,
) -> bool {
    let is_there = fragments.records.with(position.fragment, |fragment| {
        let mut repetitions = fragment.repetitions.iter();
        repetitions.any(|repetition| repetition.place == at)
    });
    is_there.unwrap_or(false)
}

/// Stores what is stored behind a repeated string instruction, which has ended in its middle.
/// Returns where the record now starts.
fn complete(thread: &Thread, buffer: &mut TraceBuffer, start: u64, repetition: &Repetition) -> u64 {
    let size = WORD * (u64::from(repetition.progress.0) + 1);
    let mut record = start;
    if start + size > buffer.end {
        // As much of the record as is there moves to the buffer's start.
        record = buffer.make_room(start, buffer.end - start);
    }
    for &(slot, stored) in &repetition.stores {
        let value = thread.register(stored.number);
        let value = match stored.half {
            true => value & 0xffff_ffff,
            false => value,
        };
        let base = match stored.beyond_fs {
            true => thread.slots().program_fs.get(),
            false => 0,
        };
        let value = value.wrapping_add(base);
        let word = record + WORD * (u64::from(slot) + 1);
        // SAFETY: the word lies in the record, for which there is room.
        unsafe { (word as *mut u64).write(value) };
    }
    record
}

/// The position in the buffer of a thread that is at a place in the cache: in a register, or in its
/// slot where that is restored.
fn bound_position(thread: &Thread, cache: &Cache, at: CacheAddress, fragment: FragmentId) -> u64 {
    let mut spills = cache.spills_at(fragment, at);
    match spills.find(|spill| spill.slot == BOUND_SPILLS[0]) {
        Some(spill) => thread.register(spill.register),
        None => thread.slots().buffer.get(),
    }
}

/// An atomic instruction faulted under its ticket lock.
fn release_lock(thread: &Thread) {
    let held = thread.slots().spills[usize::from(LOCK_SPILL)].take();
    if held != 0 {
        // SAFETY: the slot holds the address of a lock while the thread has it.
        unsafe { (held as *mut u64).write_volatile(0) };
    }
}
