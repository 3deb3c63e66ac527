//! Whole vector registers, stored where they are wanted.

use unspool_code_cache::emit::{Emitter, Gpr};
use unspool_instructions::operands::state_component::{AVX, HI16_ZMM, OPMASK, ZMM_HI256};

use crate::process::process;
use crate::slots::offset as tool_offset;

/// The state components of AVX-512.
const AVX512: u32 = 1 << OPMASK | 1 << ZMM_HI256 | 1 << HI16_ZMM;

/// A vector register, and how many bytes of it are wanted.
#[derive(Clone, Copy)]
pub(super) struct Wide {
    pub(super) register: u8,
    pub(super) bytes: u8,
}

/// Emits what puts it into the slots of an argument.
pub(super) fn store_argument(code: &mut Emitter, number: usize, wide: Wide) {
    store_slot(code, tool_offset::WIDE_ARGUMENTS + 64 * number as i32, wide);
}

/// Emits what puts it into slots from one on.
pub(super) fn store_slot(code: &mut Emitter, slot: i32, wide: Wide) {
    let there = wide.there(process().map_or(0, |it| it.vectors.mask));
    if there != 0 {
        let displacement = code.slot_displacement(slot);
        code.bytes(&[0x64]);
        let absolute = [0x04 | (wide.register & 7) << 3, 0x25];
        code.bytes(&wide.opcode(there, 0));
        code.bytes(&absolute);
        code.imm32(displacement);
    }
    for at in (there..wide.bytes).step_by(4) {
        code.store_slot_imm32(slot + i32::from(at), 0);
    }
}

/// Emits what puts it into memory at a register.
pub(super) fn store_at(code: &mut Emitter, (base, displacement): (Gpr, i32), wide: Wide) {
    let there = wide.there(process().map_or(0, |it| it.vectors.mask));
    if there != 0 {
        code.bytes(&wide.opcode(there, base));
        // A displacement of four bytes means the same with each prefix.
        code.bytes(&[0x84 | (wide.register & 7) << 3, 0x20 | base & 7]);
        code.imm32(displacement);
    }
    for at in (there..wide.bytes).step_by(8) {
        code.store_immediate(base, displacement + i32::from(at), 0);
    }
}

impl Wide {
    /// How many of the bytes the processor has, given its state components.
    fn there(self, components: u32) -> u8 {
        let has_512 = components & AVX512 == AVX512;
        let most = match (self.register >= 16, has_512, components & 1 << AVX != 0) {
            (_, true, _) => 64,
            (true, false, _) => 0,
            (false, false, true) => 32,
            (false, false, false) => 16,
        };
        let there = self.bytes.min(most);
        assert!(
            self.register < 16 || matches!(there, 0 | 64) || is_x86_feature_detected!("avx512vl"),
            "this processor stores vector register {} as a whole only: ask for 64 bytes",
            self.register
        );
        there
    }

    /// `movups`, or `vmovups` with the shortest prefix that can name the register and so many bytes; the
    /// base register is that of the memory.
    fn opcode(self, bytes: u8, base: Gpr) -> Vec<u8> {
        let high = |register: u8, bit: u8| register >> bit & 1;
        let inverted = |register: u8, bit: u8| high(register, bit) ^ 1;
        let register = self.register;
        match (bytes, register) {
            (16, 0..16) => vec![0x40 | high(register, 3) << 2 | high(base, 3), 0x0f, 0x11],
            (32, 0..16) => {
                let first = inverted(register, 3) << 7 | 1 << 6 | inverted(base, 3) << 5 | 1;
                vec![0xc4, first, 0x7c, 0x11]
            }
            _ => {
                let extended = inverted(register, 3) << 7 | inverted(register, 4) << 4;
                let first = extended | 1 << 6 | inverted(base, 3) << 5 | 1;
                let length = match bytes {
                    16 => 0,
                    32 => 1,
                    _ => 2,
                };
                vec![0x62, first, 0x7c, length << 5 | 0x08, 0x11]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Code, Decoder, DecoderOptions, Register};

    use super::Wide;

    /// What a store to `[base + 0x1234]` says to another decoder.
    fn decoded(register: u8, bytes: u8, base: u8) -> (Code, Register, Register, u64) {
        let wide = Wide { register, bytes };
        let mut code = wide.opcode(bytes, base);
        code.extend([0x84 | (register & 7) << 3, 0x20 | base & 7]);
        code.extend(0x1234_i32.to_le_bytes());
        let instruction = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).decode();
        assert_eq!(instruction.len(), code.len());
        (
            instruction.code(),
            instruction.op1_register(),
            instruction.memory_base(),
            instruction.memory_displacement64(),
        )
    }

    #[test]
    fn each_register_is_stored_as_another_decoder_reads_it() {
        for base in [0_u8, 4, 5, 11, 12, 13, 15] {
            let at = Register::RAX + u32::from(base);
            for register in 0..32_u8 {
                let [x, y, z] = [Register::XMM0, Register::YMM0, Register::ZMM0]
                    .map(|first| first + u32::from(register));
                let is_low = register < 16;
                let codes = match is_low {
                    true => [Code::Movups_xmmm128_xmm, Code::VEX_Vmovups_ymmm256_ymm],
                    false => [
                        Code::EVEX_Vmovups_xmmm128_k1z_xmm,
                        Code::EVEX_Vmovups_ymmm256_k1z_ymm,
                    ],
                };
                assert_eq!(decoded(register, 16, base), (codes[0], x, at, 0x1234));
                assert_eq!(decoded(register, 32, base), (codes[1], y, at, 0x1234));
                let widest = Code::EVEX_Vmovups_zmmm512_k1z_zmm;
                assert_eq!(decoded(register, 64, base), (widest, z, at, 0x1234));
            }
        }
    }

    #[test]
    fn what_the_processor_does_not_have_is_left_out() {
        let there = |register, bytes, components| Wide { register, bytes }.there(components);
        assert_eq!(there(3, 64, 0b10), 16);
        assert_eq!(there(3, 64, 0b110), 32);
        assert_eq!(there(3, 64, 0b1110_0110), 64);
        assert_eq!(there(20, 64, 0b110), 0);
        assert_eq!(there(20, 64, 0b1110_0110), 64);
        assert_eq!(there(3, 16, 0b1110_0110), 16);
    }
}
