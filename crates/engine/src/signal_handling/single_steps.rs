//! Instructions of the cache that are executed one by one, until the thread can be left.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::Position;
use unspool_code_cache::exit::Reason;
use unspool_kernel::guarded;

use super::context::Context;
use super::deliver;
use super::leaving::{leave, save_program};
use crate::client::{self, Rounds};
use crate::signals::TRAP_FLAG;
use crate::signals::stepping::{Boundary, Location, Look, Trap};
use crate::thread::Thread;

const TRAP_TRACE: u64 = 2;
const RESUME_FLAG: u64 = 0x1_0000;

/// Whether a trap is that behind a single step. Some hypervisors lose the bit that says so, and
/// the kernel takes the trap for an `int1` then: what the flag was for tells them apart.
pub(super) fn is_step(info: &[u64; 16], context: &Context) -> bool {
    const TRAP_BRKPT: u64 = 1;
    const INT1: u8 = 0xf1;
    let is_int1 = || {
        let mut before = [0];
        guarded::read_any(context.pc().wrapping_sub(1), &mut before) && before[0] == INT1
    };
    match info[1] {
        TRAP_TRACE => true,
        TRAP_BRKPT => context.trap_flag() && !is_int1(),
        _ => false,
    }
}

/// One instruction of the cache has been executed with the trap flag.
pub(super) fn trapped(thread: &mut Thread, context: &mut Context) {
    let gates = &thread.process.gates;
    let at = CacheAddress::of(context.pc());
    let place = match at {
        Some(at) if gates.is_translated_code(at) => Location::Translated,
        Some(at) if gates.is_entering(at) => Location::Entering,
        _ => Location::Leaving,
    };
    if thread.steps.has_pushed_flags() {
        let second_byte = context.registers[libc::REG_RSP as usize] as u64 + 1;
        let mut byte = [0];
        if guarded::read(second_byte, &mut byte) {
            let _ = guarded::write(second_byte, &[byte[0] & !((TRAP_FLAG >> 8) as u8)]);
        }
    }
    let was_stepping = thread.steps.is_stepping();
    let is_set = context.trap_flag();
    match (thread.steps.trapped(place, is_set, thread.single_step), at) {
        (Trap::Look, Some(at)) => leave_or_step(thread, at, context),
        (Trap::Look | Trap::StepOn, _) => {}
        (Trap::Run, _) => {
            if was_stepping {
                // The thread reached the exit gate by itself: what is pending will be seen.
                thread.set_pending(true);
            }
            context.set_trap_flag(false);
        }
    }
}

/// Has a thread leave the cache here, if it can be left, or execute one more instruction.
pub(super) fn leave_or_step(thread: &mut Thread, at: CacheAddress, context: &mut Context) {
    let process = thread.process;
    let code = process.code();
    let position = code.cache.position(at).filter(|position| {
        // A program that single-steps has not executed a first round yet.
        let may_be_left = !thread.is_stepped() && !client::must_complete(thread);
        position.boundary || may_be_left && has_made_rounds(thread, at, position)
    });
    let boundary = position.map(|position| Boundary {
        prologue_end: position
            .prologue
            .then(|| code.cache.prologue_end(position.fragment)),
    });
    let has_signal = thread.has_signal();
    let debugger = thread.single_step;
    let look = thread
        .steps
        .look(at, boundary, debugger, has_signal, || pushes_flags(at));
    match (look, position) {
        (Look::Leave { trap }, Some(position)) => {
            let resumes = resumes_repetition(thread, position.pc);
            save_program(thread, &code.cache, at, position, context);
            if resumes {
                thread.slots().flags.update(|flags| flags | RESUME_FLAG);
            }
            thread
                .clients()
                .each(|client| client.left_mid_fragment(position, false));
            drop(code);
            thread.clients().each(|client| client.stepped(thread));
            if trap {
                thread.delivery.put_first(deliver::single_step(position.pc));
            }
            thread.set_pending(true);
            context.set_trap_flag(false);
            leave(thread, &process.gates, Reason::INTERRUPTED, context);
        }
        _ => context.set_trap_flag(true),
    }
}

/// Whether a thread that is stepped has entered the cache with its resume flag set, at a repeated
/// string instruction that is not over: the flag is cleared only when an instruction is, and
/// not every processor sets it anew at each round.
fn resumes_repetition(thread: &Thread, pc: u64) -> bool {
    let (flags, entered_at) = (thread.slots().flags.get(), thread.slots().pc.get());
    let mut prefix = [0];
    thread.is_stepped()
        && flags & RESUME_FLAG != 0
        && entered_at == pc
        && guarded::read(pc, &mut prefix)
        && matches!(prefix[0], 0xf2 | 0xf3)
}

/// Whether a thread can be left at a repeated string instruction, between two of its rounds.
fn has_made_rounds(thread: &mut Thread, here: CacheAddress, position: &Position) -> bool {
    /// To single-step them takes about a millisecond.
    const MANY: u32 = 1000;
    let rounds = thread.clients().leaves_between_rounds(here, position);
    if rounds != Rounds::Many {
        thread.repeating = (CacheAddress::NOWHERE, 0);
        return rounds == Rounds::None;
    }
    let (at, rounds) = thread.repeating;
    thread.repeating = (here, if at == here { rounds + 1 } else { 0 });
    if thread.repeating.1 < MANY {
        return false;
    }
    thread.repeating = (CacheAddress::NOWHERE, 0);
    true
}

/// Whether the instruction at a place in the cache is `pushf`, whatever its prefixes.
fn pushes_flags(at: CacheAddress) -> bool {
    const PUSHF: u8 = 0x9c;
    let mut bytes = [0; unspool_instructions::decode::MAX_LENGTH];
    let is_prefix = |byte: &u8| {
        matches!(
            byte,
            0x66 | 0x67 | 0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf2 | 0xf3
        )
    };
    // The cache does not end behind an instruction.
    guarded::read_any(at.get(), &mut bytes)
        && bytes.iter().find(|byte| !is_prefix(byte)) == Some(&PUSHF)
}
