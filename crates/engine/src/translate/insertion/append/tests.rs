//! Entries hold what was stored, relative to the position, and the position moves once.

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::offset;

use super::super::executed::{ZERO, execute_with, item, untouched, value};
use super::{BufferEntry, advance_bound};

const EQUAL: u8 = 4;

/// What is appended to a buffer by an entry that starts so far behind the position that is bound,
/// and how far the position moves.
fn appended(
    start: i32,
    flags: u64,
    store: impl FnOnce(BufferEntry, &mut unspool_code_cache::emit::Emitter),
) -> ([u64; 8], u64) {
    let mut buffer = [0xeeee_eeee_eeee_eeee_u64; 8];
    let base = buffer.as_mut_ptr() as u64;
    let binding = RegisterBinding::usual(2);
    let mut position = 0;
    let state = execute_with(
        |slots| {
            slots.buffer.set(base);
            slots.flags.set(flags);
        },
        |builder| {
            let code = &mut builder.code;
            binding.spill(code);
            store(BufferEntry::bound(binding, start), code);
            advance_bound(code, binding, 24);
            binding.restore(code);
            // The position, where the test can see it.
            code.load_slot(gpr::RAX, offset::BUFFER);
        },
    );
    position += state.registers[0] - base;
    assert_eq!(state.registers[1..], untouched().registers[1..]);
    assert_eq!(state.flags, flags & 0x8d5);
    (buffer, position)
}

#[test]
fn fields_of_all_kinds_are_stored_where_they_belong() {
    let address = item(&[0x48, 0x8b, 0x44, 0x8b, 0x10]); // mov rax, [rbx + 4 * rcx + 16]
    let bare = item(&[0x48, 0x8b, 0x03]); // mov rax, [rbx]
    let (buffer, moved) = appended(8, untouched().flags, |entry, code| {
        entry.store_address(code, 0, &address.operands()[0], 8);
        entry.store_address(code, 8, &bare.operands()[0], 8);
        entry.store_half(code, 16, gpr::RDX);
        entry.store_slot(code, 24, offset::register(gpr::RSI), 8);
        entry.store_constant(code, 32, 0x1234_5678_9abc_def0, 8);
        entry.store_constant(code, 40, u64::MAX, 8);
        entry.store(code, 48, gpr::RDI, 2);
        entry.store_condition(code, 50, EQUAL, 2);
        entry.store_constant(code, 52, 0xffff_ff07, 1);
    });
    assert_eq!(moved, 24);
    assert_eq!(
        buffer,
        [
            0xeeee_eeee_eeee_eeee,
            value(gpr::RBX) + 4 * value(gpr::RCX) + 16,
            value(gpr::RBX),
            value(gpr::RDX) & 0xffff_ffff,
            value(gpr::RSI),
            0x1234_5678_9abc_def0,
            u64::MAX,
            0xeeee_ee07_0001_0000 | value(gpr::RDI) & 0xffff,
        ]
    );
}

#[test]
fn a_condition_is_what_the_flags_say() {
    for (flags, wanted) in [(0x202 | ZERO, 1), (0x202, 0)] {
        let (buffer, _) = appended(0, flags, |entry, code| {
            entry.store_condition(code, 0, EQUAL, 8);
        });
        assert_eq!(buffer[0], wanted);
    }
}
