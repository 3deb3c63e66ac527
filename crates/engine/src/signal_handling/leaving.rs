//! How an interrupted thread comes out of the cache: by the exit gate, with the program's state in
//! the slots.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::{Cache, Position};
use unspool_code_cache::exit::Reason;
use unspool_code_cache::gates::Gates;

use super::context::Context;
use crate::signals::TRAP_FLAG;
use crate::thread::Thread;

/// Puts the registers into the slots as they are, spilled or not.
pub(super) fn save_raw(thread: &mut Thread, context: &Context) {
    for register in 0..16 {
        thread.set_register(register, context.general(register));
    }
    let flags = context.registers[libc::REG_EFL as usize] & !(TRAP_FLAG as i64);
    thread.slots().flags.set(flags as u64);
}

/// Puts the program's state at a position of the cache into the slots.
pub(super) fn save_program(
    thread: &mut Thread,
    cache: &Cache,
    at: CacheAddress,
    position: Position,
    context: &Context,
) {
    save_raw(thread, context);
    thread
        .clients()
        .each(|client| client.leave_mid_fragment(thread, cache, at, position));
    for spill in cache.spills_at(position.fragment, at) {
        thread.restore_spill(spill);
    }
    thread.set_pc(position.pc);
    thread
        .clients()
        .each(|client| client.left_between_rounds(at, &position));
}

/// Makes the interrupted thread go on at the exit gate, whose state is already in the slots.
pub(super) fn leave(thread: &mut Thread, gates: &Gates, reason: Reason, context: &mut Context) {
    if thread.steps.left() {
        // What the steps were to lead to is still to be done.
        context.set_trap_flag(false);
        thread.set_pending(true);
    }
    thread.slots().set_reason(reason);
    context.registers[libc::REG_RSP as usize] = thread.slots().host_stack.get() as i64;
    context.set_pc(gates.exit_saved.get());
    context.hold_signals();
}
