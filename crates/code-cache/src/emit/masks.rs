//! Instructions on masks: a bit for each element of a vector.

use super::{Emitter, Gpr};

/// A vector register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector {
    /// Its number, below 16.
    pub number: u8,
    /// Its bytes: 8 (MMX), 16 or 32.
    pub bytes: u8,
}

impl Emitter {
    /// `pmovmskb`, `movmskps` or `movmskpd to, vector`: the highest bit of each element of 1, 4 or 8
    /// bytes.
    pub fn load_signs(&mut self, to: Gpr, vector: Vector, element: u8) {
        let has_vex = std::arch::is_x86_feature_detected!("avx");
        self.load_signs_with(has_vex, to, vector, element);
    }

    /// The same, encoded for processors with AVX if there is a choice.
    pub(super) fn load_signs_with(&mut self, has_vex: bool, to: Gpr, vector: Vector, element: u8) {
        let Vector { number, bytes } = vector;
        let opcode = if element == 1 { 0xd7 } else { 0x50 };
        // Single precision has no prefix, and neither has MMX.
        let is_plain = element == 4 || bytes == 8;
        let modrm = 0xc0 | (to & 7) << 3 | number & 7;
        if bytes == 32 || (bytes == 16 && has_vex) {
            let extended = (!to >> 3 & 1) << 7 | 1 << 6 | (!number >> 3 & 1) << 5;
            let form = 0x78 | u8::from(bytes == 32) << 2 | u8::from(!is_plain);
            self.bytes(&[0xc4, extended | 1, form, opcode, modrm]);
            return;
        }
        if !is_plain {
            self.bytes(&[0x66]);
        }
        self.bytes(&[0x40 | to >> 3 << 2 | number >> 3, 0x0f, opcode, modrm]);
    }

    /// `test mask, mask` (64 bits): the zero flag says whether it is empty. Sets the flags.
    pub fn test_mask(&mut self, mask: Gpr) {
        self.bytes(&[
            0x48 | mask >> 3 << 2 | mask >> 3,
            0x85,
            0xc0 | (mask & 7) << 3 | mask & 7,
        ]);
    }

    /// Leaves the lowest `count` bits of a mask, up to 64. Sets the flags.
    pub fn keep_lowest_bits(&mut self, mask: Gpr, count: u8) {
        match count {
            64.. => {}
            32.. => self.zero_extend(mask, mask),
            _ => {
                // and mask, imm32 (32 bits)
                self.bytes(&[0x40 | mask >> 3, 0x81, 0xe0 | mask & 7]);
                self.imm32((1_i32 << count) - 1);
            }
        }
    }

    /// The number of the lowest bit of a mask that is not empty: `tzcnt to, mask`, which processors
    /// without it take for `bsf`. Sets the flags.
    pub fn lowest_bit(&mut self, to: Gpr, mask: Gpr) {
        let rex = 0x48 | to >> 3 << 2 | mask >> 3;
        self.bytes(&[0xf3, rex, 0x0f, 0xbc, 0xc0 | (to & 7) << 3 | mask & 7]);
    }

    /// Clears the lowest bit of a mask that is not empty; the zero flag says whether it is empty now.
    /// Changes the register `spare`, and sets the flags.
    pub fn clear_lowest_bit(&mut self, mask: Gpr, spare: Gpr) {
        self.lea(spare, mask, -1);
        let rex = 0x48 | spare >> 3 << 2 | mask >> 3;
        self.bytes(&[rex, 0x21, 0xc0 | (spare & 7) << 3 | mask & 7]); // and mask, spare
    }

    /// Has as many bits of a mask set as before, from the lowest on: `popcnt` and `bzhi`, which
    /// processors with AVX-512 have. Changes the register `spare`, and sets the flags.
    pub fn pack_bits(&mut self, mask: Gpr, spare: Gpr) {
        let rex = 0x48 | spare >> 3 << 2 | mask >> 3;
        let registers = 0xc0 | (spare & 7) << 3 | mask & 7;
        self.bytes(&[0xf3, rex, 0x0f, 0xb8, registers]); // popcnt spare, mask
        self.load_immediate(mask, u64::MAX);
        let high = !mask >> 3 & 1;
        let extended = high << 7 | 1 << 6 | high << 5 | 2;
        let form = 0x80 | (!spare & 15) << 3;
        let modrm = 0xc0 | (mask & 7) << 3 | mask & 7;
        self.bytes(&[0xc4, extended, form, 0xf5, modrm]); // bzhi mask, mask, spare
    }
}
