//! Which bytes an instruction is about to access, from the registers and elements in the slots.

use unspool_instructions::operands::{MemoryOperand, Shape};

use super::{CHUNK, CheckSite};
use crate::slots as trace_slots;
use crate::slots::{TILE_FIRST_ROW, TILE_ROW_BYTES, TILE_ROWS};
use unspool_engine::thread::Thread;

/// The ranges that an instruction is about to access: addresses and sizes.
pub(crate) fn extents(thread: &Thread, site: &CheckSite) -> Vec<(u64, u64)> {
    let operand = &site.operand;
    let address = effective_address(thread, operand);
    let size = u64::from(operand.size);
    vec![match operand.shape {
        Shape::Plain
        | Shape::Masked { .. }
        | Shape::Compressed { .. }
        | Shape::AnyOf { .. }
        | Shape::AlignedDown => {
            let first = address.wrapping_add(site.first as u64);
            (first, (site.last - site.first + 1) as u64)
        }
        Shape::Repeat { count, .. } => repeated(thread, site, address, count),
        Shape::BitString { number } => {
            let bits = register_value(thread, number);
            let number = match operand.size {
                2 => i64::from(bits as i16),
                4 => i64::from(bits as i32),
                _ => bits as i64,
            };
            let element = number.div_euclid(8 * size as i64);
            (address.wrapping_add((element * size as i64) as u64), size)
        }
        Shape::Tile { .. } | Shape::Indexed { .. } => {
            return elements(thread, operand, address).collect();
        }
    }]
}

/// The elements of a gather or scatter, or the rows of a tile, whose address without an index
/// is known: their indexes and masks are in the slots.
pub(crate) fn elements<'site>(
    thread: &Thread,
    operand: &'site MemoryOperand,
    address: u64,
) -> impl Iterator<Item = (u64, u64)> + use<'site> {
    let slots = thread.slots();
    let part = move |at: usize, size: usize| {
        let bits = trace_slots::of(slots).elements[at / 8].get() >> (at % 8 * 8);
        match size {
            1 => i64::from(bits as u8),
            2 => i64::from(bits as u16),
            4 => i64::from(bits as i32),
            _ => bits as i64,
        }
    };
    let mask = trace_slots::of(slots).element_mask.get();
    let (numbers, step) = match operand.shape {
        Shape::Tile { tile, stride } => {
            let step = match stride {
                iced_x86::Register::None => 0,
                register => register_value(thread, register),
            };
            let end = part(TILE_ROWS + tile.number(), 1);
            (part(TILE_FIRST_ROW, 1)..end, step)
        }
        Shape::Indexed { count, .. } => (0..i64::from(count), 0),
        _ => (0..0, 0),
    };
    numbers.filter_map(move |number| {
        let (index, size) = match operand.shape {
            Shape::Tile { tile, .. } => {
                let bytes = part(TILE_ROW_BYTES + 2 * tile.number(), 2);
                (step.wrapping_mul(number as u64), bytes as u64)
            }
            Shape::Indexed { index_size, .. } if mask >> number & 1 != 0 => {
                let index_size = usize::from(index_size);
                let index = part(number as usize * index_size, index_size) as u64;
                (index, u64::from(operand.size))
            }
            _ => return None,
        };
        let offset = index.wrapping_mul(u64::from(operand.scale));
        Some((address.wrapping_add(offset), size))
    })
}

/// The range of a repeated string instruction that starts at an address, or of its first chunk.
pub(crate) fn repeated(
    thread: &Thread,
    site: &CheckSite,
    address: u64,
    count: iced_x86::Register,
) -> (u64, u64) {
    let size = u64::from(site.operand.size);
    let mut rounds = register_value(thread, count);
    if count.is_gpr64() {
        let rest = rounds.saturating_sub(CHUNK / size);
        rounds -= rest;
        trace_slots::of(thread.slots()).rest.set(rest);
    }
    let bytes = rounds.saturating_mul(size);
    let first = if direction_flag(thread) {
        address.wrapping_sub(bytes).wrapping_add(size)
    } else {
        address
    };
    (first, bytes)
}

fn direction_flag(thread: &Thread) -> bool {
    thread.slots().flags.get() & 0x400 != 0
}

fn register_value(thread: &Thread, register: iced_x86::Register) -> u64 {
    let value = thread.register(register.full_register().number() as u8);
    match register.size() {
        1 => value & 0xff,
        2 => value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    }
}

/// The address of an operand, from the registers in the slots. Spilled registers are never
/// part of an operand.
fn effective_address(thread: &Thread, operand: &MemoryOperand) -> u64 {
    use iced_x86::Register;
    let mut address = operand.displacement as u64;
    if operand.base != Register::None {
        address = address.wrapping_add(register_value(thread, operand.base));
    }
    if operand.index != Register::None && !operand.index.is_vector_register() {
        let index = register_value(thread, operand.index);
        address = address.wrapping_add(index.wrapping_mul(u64::from(operand.scale)));
    }
    if operand.address_size_32 {
        address &= 0xffff_ffff;
    }
    if let Some(segment) = operand.segment {
        address = address.wrapping_add(thread.slots().base(segment));
    }
    address
}
