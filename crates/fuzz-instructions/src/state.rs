//! The vector states and memory images that cases choose from. They follow from nothing but
//! their numbers, so that a case means the same in every file.

use fastrand::Rng;

use crate::layout::{DATA_SIZE, Place};
use crate::record::VECTORS_SIZE;

/// Number of vector states.
pub const VECTOR_STATES: u64 = 128;
/// Number of memory images.
pub const IMAGES: u64 = 32;

const HEADER: usize = 512;
/// x87, SSE, AVX, and the three components of AVX-512.
const COMPONENTS: u64 = 0b1110_0111;

/// The components that this processor has.
#[must_use]
pub fn components() -> u64 {
    let low: u32;
    // SAFETY: every processor that the engine accepts has XSAVE, and so xgetbv.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack));
    }
    u64::from(low) & COMPONENTS
}

/// Vector state `number` in the standard XSAVE format.
#[must_use]
pub fn vectors(number: u64) -> [u8; VECTORS_SIZE] {
    let mut random = Rng::with_seed(0x5eed_0001 ^ number << 8);
    let mut area = [0; VECTORS_SIZE];
    let components = components();
    // Some states have parts that were never used. Of x87 and SSE the kernel says at each
    // signal that they were, also at one that only the observer gets.
    const X87_AND_SSE: u64 = 3;
    let present = match number % 4 {
        0 => components & (random.u64(..) | X87_AND_SSE),
        _ => components,
    };
    fill_x87(&mut random, &mut area, number);
    area[24..28].copy_from_slice(&control_word(&mut random, number).to_le_bytes());
    fill_lanes(&mut random, &mut area[160..416]);
    for component in [2, 6, 7] {
        if components & 1 << component != 0 {
            let (start, size) = extent(component);
            fill_lanes(&mut random, &mut area[start..start + size]);
        }
    }
    if components & 1 << 5 != 0 {
        let (start, _) = extent(5);
        for mask in 0..8 {
            let value = mask_value(&mut random);
            area[start + 8 * mask..][..8].copy_from_slice(&value.to_le_bytes());
        }
    }
    area[HEADER..HEADER + 8].copy_from_slice(&present.to_le_bytes());
    area
}

fn extent(component: u32) -> (usize, usize) {
    let facts = std::arch::x86_64::__cpuid_count(0xd, component);
    (facts.ebx as usize, facts.eax as usize)
}

fn mask_value(random: &mut Rng) -> u64 {
    match random.u8(..8) {
        0 => 0,
        1 | 2 => u64::MAX,
        3 => 1,
        _ => random.u64(..),
    }
}

/// MXCSR: mostly all exceptions masked, any rounding, flags as they may be.
fn control_word(random: &mut Rng, number: u64) -> u32 {
    let modes = random.u32(..) & 0x6040 & if number.is_multiple_of(3) { !0 } else { 0 };
    let flags = random.u32(..) & 0x3f;
    let masks = if number % 16 == 5 {
        random.u32(..) & 0x1f80
    } else {
        0x1f80
    };
    modes | flags | masks
}

fn fill_x87(random: &mut Rng, area: &mut [u8], number: u64) {
    let masks = if number % 16 == 9 {
        random.u16(..) & 0x3f
    } else {
        0x3f
    };
    let control = 0x40 | masks | random.u16(..) & 0xf00;
    // The top of the stack and the condition codes; no exception is pending.
    let status = if masks == 0x3f {
        random.u16(..) & 0x7f3f
    } else {
        random.u16(..) & 0x7f00
    };
    area[0..2].copy_from_slice(&control.to_le_bytes());
    area[2..4].copy_from_slice(&(status & 0x7fff).to_le_bytes());
    area[4] = match random.u8(..4) {
        0 => 0,
        1 => 0xff,
        _ => random.u8(..),
    };
    for register in area[32..160].chunks_exact_mut(16) {
        let (mantissa, exponent): (u64, u16) = match random.u8(..8) {
            0 => (0, 0),
            1 => (1 << 63, 0x7fff),
            2 => (3 << 62, 0xffff),
            3 => (random.u64(..), random.u16(..)),
            // An MMX register.
            4 => (random.u64(..), 0xffff),
            _ => (random.u64(..) | 1 << 63, 0x3ff0 + random.u16(..0x40)),
        };
        register[..8].copy_from_slice(&mantissa.to_le_bytes());
        register[8..10].copy_from_slice(&exponent.to_le_bytes());
    }
}

/// Numbers that instructions on vectors like: small integers (indexes too), ordinary and odd
/// floating-point numbers, masks, and noise.
fn fill_lanes(random: &mut Rng, bytes: &mut [u8]) {
    for half in bytes.chunks_exact_mut(16) {
        match random.u8(..10) {
            0 => {
                for lane in half.chunks_exact_mut(4) {
                    lane.copy_from_slice(&random.i32(-64..64).to_le_bytes());
                }
            }
            1 => {
                for lane in half.chunks_exact_mut(8) {
                    lane.copy_from_slice(&random.i64(-64..64).to_le_bytes());
                }
            }
            2 | 3 => {
                for lane in half.chunks_exact_mut(4) {
                    let value = (random.f32() - 0.5) * 1000.0;
                    lane.copy_from_slice(&value.to_le_bytes());
                }
            }
            4 | 5 => {
                for lane in half.chunks_exact_mut(8) {
                    let value = (random.f64() - 0.5) * 1000.0;
                    lane.copy_from_slice(&value.to_le_bytes());
                }
            }
            6 => {
                const ODD: [f32; 6] = [
                    f32::NAN,
                    f32::INFINITY,
                    f32::NEG_INFINITY,
                    -0.0,
                    1e-42,
                    f32::MAX,
                ];
                for lane in half.chunks_exact_mut(4) {
                    lane.copy_from_slice(&ODD[random.usize(..ODD.len())].to_le_bytes());
                }
            }
            7 => half.fill_with(|| if random.bool() { 0xff } else { 0 }),
            _ => random.fill(half),
        }
    }
}

/// Memory image `number`.
#[must_use]
pub fn image(number: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(0x5eed_0002 ^ number << 8);
    let mut bytes = vec![0; DATA_SIZE as usize];
    for chunk in bytes.chunks_exact_mut(64) {
        match random.u8(..6) {
            0 => {}
            1 => {
                // Pointers.
                for word in chunk.chunks_exact_mut(8) {
                    let place = if random.bool() {
                        Place::Near
                    } else {
                        Place::Far
                    };
                    let pointer = place.data() + random.u64(..DATA_SIZE);
                    word.copy_from_slice(&pointer.to_le_bytes());
                }
            }
            2 => {
                for word in chunk.chunks_exact_mut(8) {
                    word.copy_from_slice(&random.u64(..64).to_le_bytes());
                }
            }
            _ => fill_lanes(&mut random, chunk),
        }
    }
    bytes
}
