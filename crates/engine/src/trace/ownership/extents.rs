//! Which bytes an instruction is about to access, from the registers in the slots.

use crate::operands::{MemoryOperand, Shape};
use crate::thread::Thread;
use crate::translate::ownership::CheckSite;

/// The ranges that an instruction is about to access.
pub(super) fn extents(thread: &Thread, site: &CheckSite) -> Vec<(u64, u64, bool)> {
    let operand = &site.operand;
    let address = effective_address(thread, operand);
    let size = u64::from(operand.size);
    let range = match operand.shape {
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
        Shape::Tile { .. } => (address, size),
        Shape::Indexed {
            index,
            index_size,
            count,
            ..
        } => {
            return indexed(
                thread, address, size, operand, index, index_size, count, site.write,
            );
        }
    };
    vec![(range.0, range.1, site.write)]
}

/// The range of a repeated string instruction that starts at an address.
pub(super) fn repeated(
    thread: &Thread,
    site: &CheckSite,
    address: u64,
    count: iced_x86::Register,
) -> (u64, u64) {
    let size = u64::from(site.operand.size);
    let bytes = register_value(thread, count).saturating_mul(size);
    let first = if direction_flag(thread) {
        address.wrapping_sub(bytes).wrapping_add(size)
    } else {
        address
    };
    (first, bytes)
}

#[expect(clippy::too_many_arguments, reason = "the fields of one operand")]
fn indexed(
    thread: &Thread,
    address: u64,
    size: u64,
    operand: &MemoryOperand,
    index: iced_x86::Register,
    index_size: u8,
    count: u8,
    write: bool,
) -> Vec<(u64, u64, bool)> {
    let bytes = crate::signals::frame::vector_register(thread.slots, index.number());
    (0..usize::from(count))
        .map(|element| {
            let at = element * usize::from(index_size);
            let number = match index_size {
                4 => i64::from(i32::from_le_bytes(
                    bytes[at..at + 4].try_into().expect("four bytes"),
                )),
                _ => i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")),
            };
            let offset = number.wrapping_mul(i64::from(operand.scale));
            (address.wrapping_add(offset as u64), size, write)
        })
        .collect()
}

fn direction_flag(thread: &Thread) -> bool {
    // SAFETY: the slots belong to this thread.
    unsafe { (*thread.slots).flags & 0x400 != 0 }
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

/// The address of an operand, from the registers in the slots. Borrowed registers are never
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
    if operand.segment.is_some() {
        // SAFETY: the slots belong to this thread.
        address = address.wrapping_add(unsafe { (*thread.slots).program_fs });
    }
    address
}
