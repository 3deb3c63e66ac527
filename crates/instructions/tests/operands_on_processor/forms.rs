//! One encoding of every instruction form, its memory operand at `[rdi]`.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

/// ModRM for `[rdi]`, register 3.
const POINTER: u8 = 0x1f;

/// Calls `each` with the bytes of every form found, perhaps repeatedly.
pub(crate) fn for_each_form(each: &mut dyn FnMut(&[u8], &Instruction)) {
    for_each_legacy_form(each);
    for opcode in 0..=255u8 {
        // The second register is number 1, or unused; pp, W and L take all their values.
        for low in 0..8 {
            for wide in [0x00, 0x80] {
                for second in [0x70, 0x78] {
                    let third = wide | second | low;
                    for map in [1, 2, 3] {
                        offer_all(&[0xc4, 0xe0 | map, third, opcode], each);
                    }
                    for_each_evex_form(opcode, wide | second | 4 | low & 3, each);
                }
            }
        }
    }
    // The mask of a masked move is register 1, and its memory implicit.
    offer(&[0x66, 0x0f, 0xf7, 0xd9], each);
    offer(&[0xc5, 0xf9, 0xf7, 0xd9], each);
}

fn for_each_legacy_form(each: &mut dyn FnMut(&[u8], &Instruction)) {
    let prefixes: [&[u8]; 8] = [
        &[],
        &[0x66],
        &[0xf2],
        &[0xf3],
        &[0x48],
        &[0x66, 0x48],
        &[0xf2, 0x48],
        &[0xf3, 0x48],
    ];
    let escapes: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    for prefix in prefixes {
        for escape in escapes {
            for opcode in 0..=255u8 {
                // Escapes and prefixes start other forms, which have their own turn.
                let is_opcode =
                    !escape.is_empty() || !matches!(opcode, 0x0f | 0x26..=0x6f | 0xf0..=0xf3);
                let is_arithmetic = opcode < 0x40 && opcode & 7 < 6 && opcode != 0x0f;
                if is_opcode || is_arithmetic || matches!(opcode, 0x63 | 0x69 | 0x6b) {
                    let head = [prefix, escape, &[opcode]].concat();
                    for reg in 0..8 {
                        offer(&[&head[..], &[POINTER & 0xc7 | reg << 3]].concat(), each);
                    }
                }
            }
        }
    }
}

fn for_each_evex_form(opcode: u8, second: u8, each: &mut dyn FnMut(&[u8], &Instruction)) {
    for map in [1, 2, 3, 5, 6] {
        // Vector lengths, with and without broadcast and mask register 1.
        for length in [0x00, 0x20, 0x40] {
            for rest in [0x08, 0x18, 0x09, 0x19] {
                offer_all(&[0x62, 0xf0 | map, second, length | rest, opcode], each);
            }
        }
    }
}

/// Offers `head` with plain and vector-indexed operands and as members of opcode groups.
fn offer_all(head: &[u8], each: &mut dyn FnMut(&[u8], &Instruction)) {
    for reg in [3, 0, 1, 2, 4, 5, 6, 7] {
        offer(&[head, &[POINTER & 0xc7 | reg << 3]].concat(), each);
    }
    // [rdi + register 2 × 1] and × 4.
    for sib in [0x17, 0x97] {
        offer(&[head, &[0x1c, sib]].concat(), each);
    }
}

/// Calls `each` if `head`, followed by zeros, is an instruction with memory.
fn offer(head: &[u8], each: &mut dyn FnMut(&[u8], &Instruction)) {
    let mut bytes = [0; 15];
    bytes[..head.len()].copy_from_slice(head);
    let instruction = Decoder::new(64, &bytes, DecoderOptions::NONE).decode();
    let has_memory = (0..instruction.op_count()).any(|operand| {
        matches!(
            instruction.op_kind(operand),
            OpKind::Memory | OpKind::MemorySegRDI
        )
    });
    if !instruction.is_invalid() && has_memory && !instruction.is_string_instruction() {
        each(&bytes[..instruction.len()], &instruction);
    }
}
