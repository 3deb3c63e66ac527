//! The trace buffer: when it is full, and when a path is left in its middle.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::FragmentId;
use unspool_code_cache::cache::{Cache, Position};
use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::BOUND_SPILLS;
use unspool_events::PathId;
use unspool_events::raw::{SpecialKind, special_header};

use super::values::take_mid_fragment;
use crate::fragment_trace::Repetition;
use crate::inserted::record::LOCK_SPILL;
use crate::slots as trace_slots;
use crate::thread_trace::OF_THREAD;
use crate::tracer::Tracer;
use unspool_engine::thread::Thread;

const WORD: u64 = 8;
const PAGE: u64 = 4096;

/// Whether a fault is the buffer's guard page.
pub(super) fn buffer_fault(thread: &mut Thread, address: u64) -> bool {
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let trace = unsafe { OF_THREAD.get(thread).as_mut() };
    trace.is_some_and(|trace| {
        trace.is_full = (trace.end..trace.end + PAGE).contains(&address);
        trace.is_full
    })
}

/// The buffer is full in the middle of a fragment: what is complete goes to the encoder, the
/// record in the making moves to the start.
pub(super) fn empty_buffer(thread: &mut Thread) {
    let process = thread.process;
    let Some(tracer) = crate::tracer::tracer() else {
        return;
    };
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let trace = unsafe { OF_THREAD.get(thread).as_mut() };
    let target = thread.slots().target.get();
    let Some(trace) = trace.filter(|trace| trace.is_full) else {
        return;
    };
    trace.is_full = false;
    let fragment = {
        let code = process.code();
        let fragment = CacheAddress::of(target).and_then(|at| code.cache.fragment_at(at));
        let Some(fragment) = fragment else {
            unspool_kernel::diagnostics::fatal(
                "the trace buffer overflowed outside translated code",
            );
        };
        fragment
    };
    let register = tracer
        .fragments
        .with(fragment, |fragment| fragment.binding.buffer());
    let Some(register) = register else {
        unspool_kernel::diagnostics::fatal(
            "the trace buffer overflowed in code that records nothing",
        );
    };
    let start = thread.register(register);
    trace.hand_over(start);
    let rest = (trace.end - start) as usize;
    // SAFETY: both ranges lie in the buffer.
    unsafe { std::ptr::copy(start as *const u8, trace.base as *mut u8, rest) };
    thread.set_register(register, trace.base);
    tracer.keep_close(thread);
}

/// A fragment is left between two of its instructions: what it recorded becomes a partial
/// record. The registers in the slots are those of the cache, spills not yet restored; without a place
/// they are those of a call into the engine.
pub(crate) fn leave_mid_fragment(
    thread: &mut Thread,
    cache: &Cache,
    at: Option<CacheAddress>,
    position: Position,
) {
    let Some(tracer) = crate::tracer::tracer() else {
        return;
    };
    if OF_THREAD.get(thread).is_null() || position.prologue {
        return;
    }
    tracer.fragments.with(position.fragment, |fragment| {
        if position.index != 0 {
            tracer.forced_splits.note(position.pc);
        }
        release_lock(thread);
        let is_closed =
            |at: &CacheAddress| fragment.closed.is_somewhere() && *at >= fragment.closed;
        if let Some(at) = at.filter(is_closed) {
            keep_position(thread, cache, at, position.fragment);
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
                start = complete(thread, start, repetition);
                // SAFETY: the trace belongs to this thread, or to its parent that waits.
                let trace = unsafe { &mut *OF_THREAD.get(thread) };
                start = take_mid_fragment(tracer, trace, start, repetition);
                repetition.progress
            }
        };
        close_partial(thread, fragment.first_path, start, (words, accessing));
    });
}

/// A function of another client's, which was called with all program state in place, has had the
/// program go on elsewhere: what was recorded until then becomes a partial record.
pub(super) fn leave_by_call(
    tracer: &Tracer,
    thread: &mut Thread,
    position: Position,
    completed: bool,
) {
    if OF_THREAD.get(thread).is_null() || position.prologue {
        return;
    }
    tracer.fragments.with(position.fragment, |fragment| {
        let recorded = fragment.progress[position.index as usize + usize::from(completed)];
        let start = thread.slots().buffer.get();
        close_partial(thread, fragment.first_path, start, recorded);
    });
}

/// Makes a partial record of so many words and accessing instructions, which starts at `start`.
fn close_partial(
    thread: &mut Thread,
    first_path: PathId,
    start: u64,
    (words, accessing): (u8, u8),
) {
    let mut end = start;
    if accessing != 0 {
        let argument = u64::from(first_path.0) | u64::from(accessing) << 24;
        let header = special_header(SpecialKind::Partial, argument, usize::from(words));
        // SAFETY: the record lies in this thread's buffer: its words have been written, and
        // its header's place lies before them (or, without words, is checked below).
        unsafe {
            let trace = &mut *OF_THREAD.get(thread);
            if words == 0 && start + WORD > trace.end {
                trace.hand_over(start);
                (trace.base as *mut u64).write(header);
                end = trace.base + WORD;
            } else {
                (start as *mut u64).write(header);
                end = start + WORD * (u64::from(words) + 1);
            }
        }
    }
    thread.slots().buffer.set(end);
}

/// Whether a place in the cache is that of a repeated string instruction: between two of its
/// rounds the state is the program's, as at a fault in its middle.
pub(super) fn is_between_rounds(tracer: &Tracer, at: CacheAddress, position: &Position) -> bool {
    let is_there = tracer.fragments.with(position.fragment, |fragment| {
        let mut repetitions = fragment.repetitions.iter();
        repetitions.any(|repetition| repetition.place == at)
    });
    is_there.unwrap_or(false)
}

/// Stores what is stored behind a repeated string instruction, which has ended in its middle.
/// Returns where the record now starts.
fn complete(thread: &Thread, start: u64, repetition: &Repetition) -> u64 {
    let size = WORD * (u64::from(repetition.progress.0) + 1);
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let trace = unsafe { &mut *OF_THREAD.get(thread) };
    let mut record = start;
    if start + size > trace.end {
        // As much of the record as is there moves to the buffer's start.
        trace.hand_over(start);
        let rest = (trace.end - start) as usize;
        // SAFETY: both ranges lie in the buffer.
        unsafe { std::ptr::copy(start as *const u8, trace.base as *mut u8, rest) };
        record = trace.base;
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

/// The record is closed: the position in the buffer, wherever it is now, is behind it.
fn keep_position(thread: &mut Thread, cache: &Cache, at: CacheAddress, fragment: FragmentId) {
    let position = bound_position(thread, cache, at, fragment);
    thread.slots().buffer.set(position);
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
