//! Bytes that are likely to be an instruction: every prefix in any order, every encoding,
//! every opcode, with operands that mostly make sense.

use fastrand::Rng;

const LONGEST: usize = 15;

/// One string of bytes; what follows the instruction in it is noise.
pub(super) fn instruction(random: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * LONGEST);
    match random.u8(..100) {
        0..32 => one_byte(random, &mut bytes),
        32..54 => two_bytes(random, &mut bytes),
        54..60 => three_bytes(random, &mut bytes),
        60..74 => vex(random, &mut bytes),
        74..90 => evex(random, &mut bytes),
        90..94 => x87(random, &mut bytes),
        94..97 => string(random, &mut bytes),
        97..99 => special(random, &mut bytes),
        _ => bytes.extend((0..LONGEST).map(|_| random.u8(..))),
    }
    operands(random, &mut bytes);
    bytes
}

fn prefixes(random: &mut Rng, bytes: &mut Vec<u8>) {
    const ALL: [u8; 11] = [
        0x66, 0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0xf0,
    ];
    match random.u8(..20) {
        0..9 => {}
        9..12 => bytes.push(0x66),
        12..14 => bytes.push(if random.bool() { 0xf2 } else { 0xf3 }),
        14 => bytes.push(0x67),
        15 => bytes.push(0x64),
        16 => bytes.push(0xf0),
        _ => {
            for _ in 0..random.usize(1..5) {
                bytes.push(ALL[random.usize(..ALL.len())]);
                if random.u8(..12) == 0 {
                    // A REX that does not count.
                    bytes.push(0x40 | random.u8(..16));
                }
            }
        }
    }
}

fn rex(random: &mut Rng, bytes: &mut Vec<u8>) {
    match random.u8(..8) {
        0..3 => {}
        3 | 4 => bytes.push(0x48),
        _ => bytes.push(0x40 | random.u8(..16)),
    }
}

fn one_byte(random: &mut Rng, bytes: &mut Vec<u8>) {
    prefixes(random, bytes);
    rex(random, bytes);
    bytes.push(random.u8(..));
}

fn two_bytes(random: &mut Rng, bytes: &mut Vec<u8>) {
    prefixes(random, bytes);
    rex(random, bytes);
    bytes.extend([0x0f, random.u8(..)]);
}

fn three_bytes(random: &mut Rng, bytes: &mut Vec<u8>) {
    prefixes(random, bytes);
    rex(random, bytes);
    let escape = if random.bool() { 0x38 } else { 0x3a };
    bytes.extend([0x0f, escape, random.u8(..)]);
}

fn misplaced(random: &mut Rng, bytes: &mut Vec<u8>) {
    match random.u8(..40) {
        0 => bytes.push(0x67),
        1 => bytes.push(0x64),
        2 => bytes.push(0x2e),
        3 => prefixes(random, bytes),
        _ => {}
    }
}

fn vex(random: &mut Rng, bytes: &mut Vec<u8>) {
    misplaced(random, bytes);
    let mut last = random.u8(..);
    if random.u8(..3) == 0 {
        // Many instructions have no second source.
        last |= 0x78;
    }
    if random.u8(..3) == 0 {
        bytes.extend([0xc5, last]);
    } else {
        let map = if random.u8(..30) == 0 {
            random.u8(..32)
        } else {
            random.u8(1..4)
        };
        bytes.extend([0xc4, random.u8(..8) << 5 | map, last]);
    }
    bytes.push(random.u8(..));
}

fn evex(random: &mut Rng, bytes: &mut Vec<u8>) {
    misplaced(random, bytes);
    let map = match random.u8(..30) {
        0 => random.u8(..8),
        1 | 2 => random.u8(5..7),
        _ => random.u8(1..4),
    };
    let mut second = random.u8(..) | 4;
    let mut third = random.u8(..);
    if random.u8(..3) == 0 {
        second |= 0x78;
        third |= 8;
    }
    if random.bool() {
        // No mask, no zeroing.
        third &= 0x78;
    }
    bytes.extend([
        0x62,
        random.u8(..16) << 4 | map,
        second,
        third,
        random.u8(..),
    ]);
}

fn x87(random: &mut Rng, bytes: &mut Vec<u8>) {
    if random.u8(..6) == 0 {
        prefixes(random, bytes);
    }
    bytes.push(0xd8 | random.u8(..8));
}

fn string(random: &mut Rng, bytes: &mut Vec<u8>) {
    const OPCODES: [u8; 10] = [0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf];
    for prefix in [0xf3, 0xf2, 0x66, 0x67, 0x64] {
        if random.u8(..3) == 0 {
            bytes.push(prefix);
        }
    }
    rex(random, bytes);
    bytes.push(OPCODES[random.usize(..OPCODES.len())]);
}

/// What chance would not find often.
fn special(random: &mut Rng, bytes: &mut Vec<u8>) {
    const STRINGS: [&[u8]; 24] = [
        &[0x9c],
        &[0x9d],
        &[0x66, 0x9c],
        &[0x66, 0x9d],
        &[0xc8, 0x20, 0x00, 0x00],
        &[0xc8, 0x10, 0x00, 0x03],
        &[0xc9],
        &[0xd7],
        &[0x67, 0xd7],
        &[0x0f, 0xc7, 0x0f],
        &[0xf0, 0x48, 0x0f, 0xc7, 0x0e],
        &[0x48, 0x0f, 0xc7, 0x0b],
        &[0x48, 0x0f, 0xae, 0x27],
        &[0x0f, 0xc7, 0x27],
        &[0x0f, 0xae, 0x07],
        &[0x48, 0x0f, 0xae, 0x0f],
        &[0xf3, 0x48, 0x0f, 0xae, 0xc0],
        &[0xf3, 0x48, 0x0f, 0xae, 0xd0],
        &[0xf3, 0x0f, 0xc7, 0xf8],
        &[0x0f, 0xa2],
        &[0x0f, 0x01, 0xd0],
        &[0x66, 0x0f, 0xf7, 0xca],
        &[0xc5, 0xf8, 0x77],
        &[0xc5, 0xfc, 0x77],
    ];
    bytes.extend(STRINGS[random.usize(..STRINGS.len())]);
}

/// ModRM, SIB, displacement and immediate, whether the opcode has them or not.
fn operands(random: &mut Rng, bytes: &mut Vec<u8>) {
    let reg = random.u8(..8) << 3;
    let displacement_8 = random.u8(..);
    match random.u8(..16) {
        0..7 => bytes.push(0xc0 | reg | random.u8(..8)),
        7..9 => memory(random, bytes, reg, &[]),
        9..12 => memory(random, bytes, 0x40 | reg, &[displacement_8]),
        12..14 => {
            let displacement = random.i32(-600..600).to_le_bytes();
            memory(random, bytes, 0x80 | reg, &displacement);
        }
        _ => {
            // Relative to RIP; corrected when its place is known.
            bytes.push(reg | 5);
            bytes.extend(random.i32(..).to_le_bytes());
        }
    }
    while bytes.len() < 2 * LONGEST {
        let byte = match random.u8(..4) {
            0 => random.u8(..16),
            1 => random.u8(..64),
            _ => random.u8(..),
        };
        bytes.push(byte);
    }
}

fn memory(random: &mut Rng, bytes: &mut Vec<u8>, mode: u8, displacement: &[u8]) {
    let base = random.u8(..8);
    bytes.push(mode | base);
    if base == 4 {
        bytes.push(random.u8(..));
    }
    bytes.extend(displacement);
}
