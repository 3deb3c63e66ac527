//! Moves the code of a case from its home to where it is in a file: what it names by
//! distance stays what it names.

use iced_x86::{Decoder, DecoderOptions, Instruction};

use crate::case::Case;
use crate::layout::{CODE_LIMIT, CODE_STRIDE, DATA_SIZE, Place, THREAD_POINTER};
use crate::record::{CaseRecord, PATCH_LIMIT};

/// An instruction at `pc`, and where its displacement is.
#[must_use]
pub fn decode(bytes: &[u8], pc: u64) -> (Instruction, iced_x86::ConstantOffsets) {
    let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let offsets = decoder.get_constant_offsets(&instruction);
    (instruction, offsets)
}

/// Changes a displacement or distance in the bytes of an instruction by `change`.
pub fn add_to_field(bytes: &mut [u8], offset: usize, size: usize, change: i64) {
    let mut field = [0; 8];
    field[..size].copy_from_slice(&bytes[offset..offset + size]);
    let value = i64::from_le_bytes(field).wrapping_add(change);
    bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// Moves one instruction from `from` to `to`. Branches inside `code` move along.
fn move_instruction(bytes: &mut [u8], from: u64, to: u64, code: &std::ops::Range<u64>) {
    let (instruction, offsets) = decode(bytes, from);
    if instruction.is_invalid() {
        return;
    }
    let change = from.wrapping_sub(to) as i64;
    if instruction.is_ip_rel_memory_operand() && offsets.displacement_size() == 4 {
        add_to_field(bytes, offsets.displacement_offset(), 4, change);
    }
    let leaves = !code.contains(&instruction.near_branch_target());
    if instruction.near_branch_target() != 0 && leaves && offsets.immediate_size() == 4 {
        add_to_field(bytes, offsets.immediate_offset(), 4, change);
    }
}

/// The record of a case that lies at `index` in a file.
#[must_use]
pub fn place(case: &Case, index: usize) -> CaseRecord {
    let (home, address) = (case.place.home(), case.place.case(index));
    let around = home & !(CODE_STRIDE - 1);
    let around = around..around + CODE_STRIDE;
    let moved = |value: u64| {
        if around.contains(&value) {
            value - home + address
        } else {
            value
        }
    };
    let mut code = [0; CODE_LIMIT];
    let mut at = 0;
    for instruction in &case.instructions {
        let mut bytes = instruction.clone();
        move_instruction(&mut bytes, home + at as u64, address + at as u64, &around);
        code[at..at + bytes.len()].copy_from_slice(&bytes);
        at += bytes.len();
    }
    let mut patches = [[u64::MAX, 0]; PATCH_LIMIT];
    for (to, (offset, value)) in patches.iter_mut().zip(&case.patches) {
        *to = [(*offset).min(DATA_SIZE - 8), moved(*value)];
    }
    CaseRecord {
        registers: case.registers.map(moved),
        flags: case.flags,
        thread_pointer: case.place.data() + THREAD_POINTER,
        vectors: case.vectors,
        image: case.image,
        address,
        length: at as u64,
        patches,
        code,
    }
}

/// The code of a case and the jump behind it, into the middle of which a case may branch.
#[must_use]
pub fn with_way_out(record: &CaseRecord) -> Vec<u8> {
    let mut code = record.code[..record.length as usize].to_vec();
    let next = record.address + record.length + 5;
    let start = if next < Place::Far.code() {
        Place::Near.code()
    } else {
        Place::Far.code()
    };
    code.push(0xe9);
    code.extend((start.wrapping_sub(next) as i32).to_le_bytes());
    code.extend([BREAKPOINT; 16]);
    code
}

/// What fills the space between cases.
pub const BREAKPOINT: u8 = 0xcc;

/// The case without one of its instructions; what the others name by distance stays.
#[must_use]
pub fn without_instruction(case: &Case, index: usize) -> Case {
    let mut smaller = case.clone();
    let removed = smaller.instructions.remove(index).len() as u64;
    let home = case.place.home();
    let start: u64 = case.instructions[..index]
        .iter()
        .map(|bytes| bytes.len() as u64)
        .sum();
    let around = home..home + CODE_STRIDE;
    let mut at = home + start + removed;
    for bytes in &mut smaller.instructions[index..] {
        move_instruction(bytes, at, at - removed, &around);
        at += bytes.len() as u64;
    }
    smaller
}

/// Whether there is a near return in the case, or in what a branch into it may find.
pub(crate) fn returns(record: &CaseRecord) -> bool {
    with_way_out(record)
        .iter()
        .any(|byte| matches!(byte, 0xc2 | 0xc3))
}
