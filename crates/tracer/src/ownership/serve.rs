//! What translated code asks of the protocol: to acquire lines.

use std::sync::atomic::Ordering;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::{Exit, FLAGS, Position, SpillInterval};
use unspool_events::raw::{SpecialKind, special_header};

use super::acquire::Acquisition;
use super::clock::TIME_PER_BYTE;
use super::extents::extents;
use super::{CLEAN_CALL_BIT, EPOCH, POLL};
use crate::buffer::leave_mid_fragment;
use crate::inserted::ownership::CheckSite;
use crate::inserted::ownership::chunks::ChunkEnd;
use crate::slots as trace_slots;
use crate::thread_trace::OF_THREAD;
use crate::tracer::Tracer;
use unspool_engine::thread::Thread;

/// A check failed, or somebody asked this thread for more than an answer. Returns where the thread goes on in the
/// cache, or none if it has to leave the superblock.
pub(crate) fn serve(tracer: &Tracer, thread: &mut Thread, exit: &Exit) -> Option<CacheAddress> {
    let resume = exit.stub;
    let register = exit.binding.buffer();
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let trace = unsafe { &mut *OF_THREAD.get(thread) };
    let start = thread.register(register);
    if exit.detail == POLL {
        answer(tracer, thread, trace.bound(start));
        let floor = trace.progress.as_ref().and_then(|own| own.take_floor());
        if let Some(floor) = floor {
            let start = trace.catch_up_mid_fragment(tracer, start, floor);
            thread.set_register(register, start);
        }
        return Some(resume);
    }
    let site = tracer.ownership.site(exit.detail & !CLEAN_CALL_BIT);
    if let Some(ChunkEnd { stops_at }) = site.ends_chunk {
        return end_piece(thread, resume, site, stops_at);
    }
    // What the record in the making has accessed counts as a whole record.
    let bound = trace.bound(start) + 8 * TIME_PER_BYTE;
    let mut acquisition = Acquisition::new(tracer, thread, bound);
    for (address, size) in extents(acquisition.thread, site) {
        acquisition.acquire_range(address, size, site.write);
    }
    acquisition.lost |= std::mem::take(&mut trace.lost);
    let Acquisition {
        least,
        lost,
        nowhere,
        elsewhere,
        ..
    } = acquisition;
    if lost {
        leave_superblock(thread, resume.before(), site, true);
        // The instruction comes first in the next record.
        if least > trace.reached {
            trace.stamp_next(least);
        }
        return None;
    }
    if least > trace.reached {
        let record = [
            special_header(SpecialKind::Stamp, site.ordinal as u64, 1),
            least,
        ];
        let start = trace.insert_before(start, site.words as u64, &record);
        thread.set_register(register, start);
        trace.pass_stamp(start, least);
    }
    Some(if nowhere || elsewhere {
        site.passed
    } else {
        resume
    })
}

/// Before the engine writes program memory on the kernel's behalf: takes the lines, so that
/// whoever sees the values comes later. The thread is out of the cache; the next event gets
/// its time.
pub(crate) fn own(tracer: &Tracer, thread: &mut Thread, address: u64, size: u64) {
    if !tracer.ownership.is_checking() || OF_THREAD.get(thread).is_null() {
        return;
    }
    tracer.outside(thread, |thread| {
        // SAFETY: the trace belongs to this thread, or to its parent that waits.
        let trace = unsafe { &mut *OF_THREAD.get(thread) };
        tracer.pass_barrier(thread, trace);
        let bound = trace.bound(trace.position());
        let mut acquisition = Acquisition::new(tracer, thread, bound);
        acquisition.acquire_range(address, size, true);
        let least = acquisition.least;
        if least > trace.reached {
            trace.stamp_next(least);
        }
    });
}

/// A chunk of a repeated string instruction has been executed. The next one begins like an
/// instruction of its own, unless the last comparison has ended them all.
fn end_piece(
    thread: &mut Thread,
    resume: CacheAddress,
    site: &CheckSite,
    stops_at: Option<bool>,
) -> Option<CacheAddress> {
    const ZERO_FLAG: u64 = 0x40;
    trace_slots::of(thread.slots()).rest.set(0);
    let is_zero = thread.slots().flags.get() & ZERO_FLAG != 0;
    if stops_at == Some(is_zero) {
        return Some(resume);
    }
    leave_superblock(thread, resume.before(), site, false);
    None
}

/// The superblock is left at an instruction: lines of earlier checks are gone, or (not `before`)
/// the instruction has been executed in part.
fn leave_superblock(thread: &mut Thread, at: CacheAddress, site: &CheckSite, before: bool) {
    let code = thread.process.code();
    let position = code
        .cache
        .position_of(at, site.instruction)
        .expect("the check belongs to the fragment");
    let position = Position {
        boundary: before,
        ..position
    };
    leave_mid_fragment(thread, &code.cache, None, position);
    for spill in code.cache.spills_at(position.fragment, at) {
        thread.restore_spill(spill);
    }
    if site.flags_live {
        let slot = unspool_engine::translate::insertion::borrowed::FLAGS_SPILL;
        thread.restore_spill(SpillInterval {
            start: 0,
            end: 0,
            register: FLAGS,
            slot,
        });
    }
    thread.set_pc(position.pc);
}

/// Passes a safe point.
fn answer(tracer: &Tracer, thread: &mut Thread, time: u64) {
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let public = tracer
        .ownership
        .public(unsafe { (*OF_THREAD.get(thread)).index });
    let poll = &trace_slots::of(thread.slots()).poll;
    poll.store(0, Ordering::SeqCst);
    public.clock.store(time, Ordering::SeqCst);
    public.state.fetch_add(EPOCH, Ordering::SeqCst);
}
