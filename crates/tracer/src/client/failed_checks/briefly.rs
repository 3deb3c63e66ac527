//! Acquiring lines without leaving the cache for good: what [`Gates::acquire`] calls.
//!
//! [`Gates::acquire`]: unspool_code_cache::gates::Gates::acquire

use unspool_code_cache::gates::{CheckSlots, Continuation};
use unspool_code_cache::slots::SlotsPart;
use unspool_events::raw::{SpecialKind, special_header};
use unspool_instructions::operands::Shape;

use crate::check_sites::{elements, repeated};
use crate::ownership::Acquisition;
use crate::thread_trace::{ThreadTrace, of};
use crate::trace_buffer::TIME_PER_BYTE;
use crate::tracer::tracer;
use unspool_engine::thread::Thread;

const WORD: u64 = 8;
/// A stamp: its header and its time.
const STAMP: u64 = 2 * WORD;

/// A check failed; the slots hold the registers, the number of the check, and its address.
/// Bound by what [`Acquisition`] says.
pub(crate) extern "C" fn acquire_lines() -> Continuation {
    let tracer = tracer().expect("only traced code checks owners");
    // SAFETY: the pointer is this thread's own.
    let thread = unsafe { &mut *Thread::current() };
    let trace = of(thread).expect("only traced code checks owners");
    let ThreadTrace { buffer, owner, .. } = trace;
    let check = CheckSlots::of(thread.slots());
    let address = check.address.get();
    let site = tracer.check_sites.get(check.check());
    let leave = Continuation::new(site.leave, site.leave);
    let start = thread.register(site.buffer);
    let making = (site.words as u64 + 1) * WORD;
    if start + making + STAMP > buffer.end {
        return leave;
    }
    let bound = buffer.bound(start);
    // What the record in the making has accessed counts as a whole record.
    let mut acquisition = Acquisition::new(
        &tracer.ownership,
        buffer.slots,
        owner,
        bound + WORD * TIME_PER_BYTE,
    );
    match site.operand.shape {
        Shape::Repeat { count, .. } => {
            let (address, size) = repeated(thread, site, address, count);
            acquisition.acquire_range(address, size, site.write);
        }
        Shape::Indexed { .. } | Shape::Tile { .. } => {
            for (address, size) in elements(thread, &site.operand, address) {
                acquisition.acquire_range(address, size, site.write);
            }
        }
        _ => {
            let size = (site.last - site.first + 1) as u64;
            acquisition.acquire_range(address, size, site.write);
        }
    }
    let Acquisition {
        least,
        lost,
        nowhere,
        elsewhere,
        ..
    } = acquisition;
    if least > buffer.reached {
        let header = special_header(SpecialKind::Stamp, site.ordinal as u64, 1);
        // SAFETY: the range was checked to lie in the buffer, which belongs to this thread.
        unsafe { insert_stamp(start, making, header, least) };
        let moved = start + STAMP;
        thread.set_register(site.buffer, moved);
        buffer.set_bound(moved, bound);
        buffer.pass_stamp(moved, least);
    }
    if lost {
        owner.note_lost();
    }
    if lost || nowhere {
        return leave;
    }
    let target = if elsewhere { site.passed } else { site.start };
    Continuation::new(target, site.leave)
}

/// Puts a stamp before the record in the making, which has `making` bytes.
///
/// # Safety
/// The bytes from `start` on, as many as both have together, must be the caller's.
unsafe fn insert_stamp(start: u64, making: u64, header: u64, time: u64) {
    let start = start as *mut u64;
    // Volatile, so that it does not become a call of the C library.
    // SAFETY: as promised.
    unsafe {
        for word in (0..(making / WORD) as usize).rev() {
            start
                .add(word + 2)
                .write_volatile(start.add(word).read_volatile());
        }
        start.write_volatile(header);
        start.add(1).write_volatile(time);
    }
}
