//! State that the engine leaves in the processor during a call, because compiled Rust never changes
//! it: MMX registers, and how tiles are divided.

use std::arch::asm;
use std::ops::Range;

/// How tiles are divided, as the processor stores it.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct TileConfiguration([u8; 64]);

impl TileConfiguration {
    const FIRST_ROW: usize = 1;
    const ROW_BYTES: usize = 16;
    const ROWS: usize = 48;

    /// The rows of a tile that an instruction still has to access, and the bytes of each.
    pub(super) fn rows(&self, tile: usize) -> (Range<u64>, u64) {
        let bytes = Self::ROW_BYTES + 2 * tile;
        let bytes = u16::from_le_bytes([self.0[bytes], self.0[bytes + 1]]);
        let rows = self.0[Self::ROWS + tile];
        (self.0[Self::FIRST_ROW].into()..rows.into(), bytes.into())
    }
}

/// The program's, which is about to execute an instruction that needs it.
pub(super) fn tile_configuration() -> TileConfiguration {
    let mut configuration = TileConfiguration([0; 64]);
    if !has_tiles() {
        // The instruction will fault.
        return configuration;
    }
    // SAFETY: the processor has the instruction, which stores 64 bytes and changes no register.
    unsafe { asm!("sttilecfg [{}]", in(reg) &raw mut configuration, options(nostack)) };
    configuration
}

/// Whether there are tiles.
fn has_tiles() -> bool {
    const AMX_TILE: u32 = 1 << 24;
    std::arch::x86_64::__cpuid(0).eax >= 7
        && std::arch::x86_64::__cpuid_count(7, 0).edx & AMX_TILE != 0
}

/// What FXSAVE stores.
#[repr(C, align(16))]
struct Legacy([u8; 512]);

/// An MMX register of the program.
pub(super) fn mmx_register(number: usize) -> u64 {
    let mut legacy = Legacy([0; 512]);
    // SAFETY: so many bytes are stored; nothing is changed, as reading the register itself would.
    unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut legacy, options(nostack)) };
    legacy.mmx_register(number)
}

impl Legacy {
    fn mmx_register(&self, number: usize) -> u64 {
        const STATUS: usize = 2;
        const STACK: usize = 32;
        // The registers are stored as the stack has them, whose top the status word names.
        let status = u16::from_le_bytes([self.0[STATUS], self.0[STATUS + 1]]);
        let top = usize::from(status >> 11 & 7);
        let place = STACK + 16 * (number.wrapping_sub(top) & 7);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[place..place + 8]);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Legacy, TileConfiguration};

    #[test]
    fn rows_that_are_left_of_a_tile() {
        let mut configuration = TileConfiguration([0; 64]);
        configuration.0[1] = 3;
        configuration.0[16 + 2 * 5..][..2].copy_from_slice(&48_u16.to_le_bytes());
        configuration.0[48 + 5] = 9;
        assert_eq!(configuration.rows(5), (3..9, 48));
        assert!(configuration.rows(4).0.is_empty());
    }

    #[test]
    fn mmx_registers_lie_beside_the_top_of_the_stack() {
        let mut legacy = Legacy([0; 512]);
        for place in 0..8 {
            legacy.0[32 + 16 * place] = place as u8;
        }
        assert_eq!(legacy.mmx_register(3), 3);
        legacy.0[3] = 6 << 3;
        // The top is register 6: it is stored first, 7 behind it, then 0.
        assert_eq!([6, 7, 0, 3].map(|it| legacy.mmx_register(it)), [0, 1, 2, 5]);
    }
}
