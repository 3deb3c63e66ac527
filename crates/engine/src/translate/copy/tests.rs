//! Copies that need a register of their own, in the middle of which a thread is stopped.

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::SpillInterval;
use unspool_code_cache::emit::{Gpr, TARGET, gpr};
use unspool_code_cache::slots::slots;

use super::Builder;
use crate::translate::insertion::borrowed::Borrowed;
use crate::translate::insertion::executed::{copy, execute, execute_with, item, untouched};
use crate::translate::item::Item;

/// What the bound register of a client's buffer holds.
const BUFFER: u64 = 0xb0ff;

/// `cmpxchg` of rcx: with rax and rcx it uses those that would else be taken first.
const COMPARE_EXCHANGE: [u8; 2] = [0x0f, 0xb1];

/// Out of reach of the cache, with a base of RIP.
fn far() -> Item {
    item(&[0x48, 0x0f, 0xb1, 0x0d, 0, 0, 0, 0x20])
}

fn in_gs() -> Item {
    item(&[0x65, 0x48, 0x0f, 0xb1, 0x0c, 0x25, 0, 0, 0, 0x20])
}

/// Has the code go on at its end from the copied instruction on, as if a thread were stopped there.
/// Returns what is spilled there.
fn stop_at_instruction(builder: &mut Builder) -> Vec<SpillInterval> {
    const JUMP: u8 = 0xe9;
    let end = builder.code.here();
    // SAFETY: what has been emitted so far.
    let emitted = unsafe {
        std::slice::from_raw_parts(
            builder.start.get() as *const u8,
            usize::from(builder.offset()),
        )
    };
    let opcode = emitted
        .windows(COMPARE_EXCHANGE.len())
        .position(|bytes| bytes == COMPARE_EXCHANGE)
        .expect("it was copied");
    // Before it stands a REX prefix.
    let offset = opcode as u32 - 1;
    let at = builder.start.plus(offset);
    builder.patch_byte(at, JUMP);
    let distance = end.distance_from(at.plus(5));
    builder.code.patch32(at.plus(1), distance as i32);
    let spills = builder.new_fragment.spills.iter().copied();
    let here =
        |spill: &SpillInterval| (u32::from(spill.start)..u32::from(spill.end)).contains(&offset);
    spills.filter(here).collect()
}

/// The program's registers, given those that a stopped thread has and what is spilled there.
fn of_program(mut registers: [u64; 16], spills: &[SpillInterval]) -> [u64; 16] {
    for spill in spills {
        registers[usize::from(spill.register)] = slots().spills[usize::from(spill.slot)].get();
    }
    registers
}

/// Stopped in the copy of this instruction, with rdx and the register of the target bound. Returns
/// what it has in the registers itself, and what the program has there.
fn stopped(instruction: &Item) -> ([u64; 16], [u64; 16]) {
    let touched = !(1 << gpr::RDX | 1 << TARGET);
    let binding = RegisterBinding::for_code(touched, 2).expect("two registers are free");
    assert_eq!((binding.buffer(), binding.scratch()), (gpr::RDX, TARGET));
    let mut spills = Vec::new();
    let state = execute_with(
        |slots| slots.buffer.set(BUFFER),
        |builder| {
            builder.new_fragment.binding = binding;
            binding.spill(&mut builder.code);
            builder.note_spills(binding);
            copy(builder, instruction);
            spills = stop_at_instruction(builder);
        },
    );
    (state.registers, of_program(state.registers, &spills))
}

#[test]
fn a_copy_leaves_bound_registers_alone() {
    for instruction in [far(), in_gs()] {
        let (registers, program) = stopped(&instruction);
        assert_eq!(registers[usize::from(gpr::RDX)], BUFFER);
        assert_eq!(program, untouched().registers);
    }
}

#[test]
fn a_copy_finds_borrowed_registers_given_back() {
    const TAKEN: Gpr = gpr::RDX;
    for instruction in [far(), in_gs()] {
        let mut spills = Vec::new();
        let state = execute(|builder| {
            let mut borrowed = Borrowed::default();
            borrowed.take_this(builder, TAKEN, 0);
            builder.code.load_immediate(TAKEN, 0x0bad);
            borrowed.settle(builder, &instruction);
            copy(builder, &instruction);
            spills = stop_at_instruction(builder);
        });
        let program = of_program(state.registers, &spills);
        assert_eq!(program, untouched().registers);
    }
}
