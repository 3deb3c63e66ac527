//! What translated code asks of the protocol of line-atomic order: to acquire lines.

mod briefly;

pub(super) use self::briefly::acquire_lines;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::{Exit, FLAGS, Position, SpillInterval};
use unspool_code_cache::gates::CheckNumber;
use unspool_engine::thread::Thread;
use unspool_engine::translate::insertion::borrowed::FLAGS_SPILL;
use unspool_events::raw::{SpecialKind, special_header};

use super::mid_fragment::leave_mid_fragment;
use crate::check_sites::{CheckSite, ChunkEnd, extents};
use crate::ownership::Acquisition;
use crate::slots as trace_slots;
use crate::thread_trace::ThreadTrace;
use crate::trace_buffer::TIME_PER_BYTE;
use crate::tracer::Tracer;

/// Somebody asked this thread for more than an answer.
pub(super) fn show(tracer: &Tracer, trace: &mut ThreadTrace, thread: &mut Thread, exit: &Exit) {
    let ThreadTrace { buffer, owner, .. } = trace;
    let register = exit.binding.buffer();
    let start = thread.register(register);
    let bound = buffer.bound(start);
    let ownership = &tracer.ownership;
    ownership.answer(buffer, owner, bound);
    let was_full = buffer.has_set_aside();
    let floor = buffer.take_floor();
    if !was_full && floor.is_none() {
        return;
    }
    // Whoever takes the records may take long.
    ownership.give_lines(owner, || {
        let start = match floor {
            Some(floor) => buffer.catch_up_mid_fragment(start, floor),
            None => buffer.make_room(start, 0),
        };
        thread.set_register(register, start);
        if was_full {
            tracer.skew.keep_close(thread.id, buffer);
        }
    });
}

/// A check failed, or a chunk has ended. Returns where the thread goes on in the cache, or none if
/// it has to leave the superblock.
pub(super) fn serve(
    tracer: &Tracer,
    trace: &mut ThreadTrace,
    thread: &mut Thread,
    (check, exit): (CheckNumber, &Exit),
) -> Option<CacheAddress> {
    let ownership = &tracer.ownership;
    let ThreadTrace { buffer, owner, .. } = &mut *trace;
    let resume = exit.stub;
    let register = exit.binding.buffer();
    let start = thread.register(register);
    let site = tracer.check_sites.get(check);
    if let Some(ChunkEnd { stops_at }) = site.ends_chunk {
        return end_chunk(tracer, trace, thread, resume, site, stops_at);
    }
    // What the record in the making has accessed counts as a whole record.
    let bound = buffer.bound(start) + 8 * TIME_PER_BYTE;
    let mut acquisition = Acquisition::new(ownership, buffer.slots, owner, bound);
    for (address, size) in extents(thread, site) {
        acquisition.acquire_range(address, size, site.write);
    }
    let Acquisition {
        least,
        lost,
        nowhere,
        elsewhere,
        ..
    } = acquisition;
    if owner.take_lost() || lost {
        leave_superblock(tracer, trace, thread, resume.before(), site, true);
        // The instruction comes first in the next record.
        if least > trace.buffer.reached {
            trace.buffer.stamp_next(least);
        }
        return None;
    }
    if least > buffer.reached {
        let record = [
            special_header(SpecialKind::Stamp, site.ordinal as u64, 1),
            least,
        ];
        let start = buffer.insert_before(start, site.words as u64, &record);
        thread.set_register(register, start);
        buffer.pass_stamp(start, least);
    }
    Some(if nowhere || elsewhere {
        site.passed
    } else {
        resume
    })
}

/// A chunk of a repeated string instruction has been executed. The next one begins like an
/// instruction of its own, unless the last comparison has ended them all.
fn end_chunk(
    tracer: &Tracer,
    trace: &mut ThreadTrace,
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
    leave_superblock(tracer, trace, thread, resume.before(), site, false);
    None
}

/// The superblock is left at an instruction: lines of earlier checks are gone, or (not `before`)
/// the instruction has been executed in part.
fn leave_superblock(
    tracer: &Tracer,
    trace: &mut ThreadTrace,
    thread: &mut Thread,
    at: CacheAddress,
    site: &CheckSite,
    before: bool,
) {
    let code = thread.process.code();
    let position = code
        .cache
        .position_of(at, site.instruction)
        .expect("the check belongs to the fragment");
    let position = Position {
        boundary: before,
        ..position
    };
    leave_mid_fragment(tracer, trace, thread, &code.cache, None, position);
    for spill in code.cache.spills_at(position.fragment, at) {
        thread.restore_spill(spill);
    }
    if site.flags_live {
        thread.restore_spill(SpillInterval {
            start: 0,
            end: 0,
            register: FLAGS,
            slot: FLAGS_SPILL,
        });
    }
    thread.set_pc(position.pc);
}
