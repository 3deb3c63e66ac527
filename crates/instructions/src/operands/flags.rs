//! Which flags an instruction reads and overwrites: what is asked of most instructions, and of
//! many that are only looked at.

use iced_x86::Instruction as Decoded;

use super::RegisterUse;
use super::registers::flags_only;
use crate::decode::{Encoding, Instruction};

/// The flags that an instruction uses, as in [`RegisterUse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlagUse {
    /// Flags that may be read.
    pub read: u16,
    /// Flags that change in any case.
    pub overwritten: u16,
}

/// What `instruction` does to flags.
#[must_use]
pub fn flag_use(instruction: &Decoded) -> FlagUse {
    let uses = flags_only(instruction);
    FlagUse {
        read: uses.flags_read,
        overwritten: uses.flags_overwritten,
    }
}

/// The same, of the instructions of which most code consists; nothing of others.
#[must_use]
pub fn quick_flag_use(layout: &Instruction) -> Option<FlagUse> {
    let plain = layout.encoding == Encoding::Legacy && !layout.lock;
    let operation = layout.opcode >> 3 & 7;
    match (layout.map, layout.opcode) {
        _ if !plain => None,
        (0, 0x00..=0x3f) if layout.opcode & 7 < 6 => Some(arithmetic(operation)),
        (0, 0x80 | 0x81 | 0x83) => Some(arithmetic(layout.modrm_reg())),
        // test
        (0, 0x84 | 0x85 | 0xa8 | 0xa9) => Some(overwritten(RegisterUse::STATUS)),
        // push, pop, movsxd, mov
        (0, 0x50..=0x5f | 0x63 | 0x68 | 0x6a | 0x88..=0x8b | 0xb0..=0xbf) => {
            Some(FlagUse::default())
        }
        // ret, call, jmp
        (0, 0xc3 | 0xe8 | 0xe9 | 0xeb) if !layout.operand_size_prefix => Some(FlagUse::default()),
        // lea
        (0, 0x8d) if layout.has_memory_modrm() => Some(FlagUse::default()),
        // mov
        (0, 0xc6 | 0xc7) if layout.modrm_reg() == 0 => Some(FlagUse::default()),
        // inc, dec
        (0, 0xfe | 0xff) if layout.modrm_reg() < 2 => {
            Some(overwritten(RegisterUse::STATUS & !RegisterUse::CARRY))
        }
        (0, 0x70..=0x7f) | (1, 0x80..=0x8f) if !layout.operand_size_prefix => {
            Some(condition(layout.opcode))
        }
        // cmov, set
        (1, 0x40..=0x4f | 0x90..=0x9f) => Some(condition(layout.opcode)),
        // nop, movzx, movsx
        (1, 0x1f | 0xb6 | 0xb7 | 0xbe | 0xbf) => Some(FlagUse::default()),
        _ => None,
    }
}

fn overwritten(overwritten: u16) -> FlagUse {
    FlagUse {
        read: 0,
        overwritten,
    }
}

/// add, or, adc, sbb, and, sub, xor, cmp
fn arithmetic(operation: u8) -> FlagUse {
    let with_carry = matches!(operation, 2 | 3);
    FlagUse {
        read: if with_carry { RegisterUse::CARRY } else { 0 },
        overwritten: RegisterUse::STATUS,
    }
}

/// What a condition depends on, by the low four bits of opcodes.
fn condition(opcode: u8) -> FlagUse {
    let read = match opcode >> 1 & 7 {
        0 => RegisterUse::OVERFLOW,
        1 => RegisterUse::CARRY,
        2 => RegisterUse::ZERO,
        3 => RegisterUse::CARRY | RegisterUse::ZERO,
        4 => RegisterUse::SIGN,
        5 => RegisterUse::PARITY,
        6 => RegisterUse::SIGN | RegisterUse::OVERFLOW,
        _ => RegisterUse::ZERO | RegisterUse::SIGN | RegisterUse::OVERFLOW,
    };
    FlagUse {
        read,
        overwritten: 0,
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::InstructionInfoFactory;

    use super::*;
    use crate::decode::{Kind, decode};
    use crate::operands::register_use;

    /// All opcodes of both maps with all ModRM bytes and the prefixes that may matter: the
    /// shortcut says what iced's tables say, or nothing.
    #[test]
    fn the_shortcut_says_what_the_tables_say() {
        let prefixes: [&[u8]; 8] = [
            &[],
            &[0x66],
            &[0xf2],
            &[0xf3],
            &[0x48],
            &[0x4f],
            &[0x66, 0x48],
            &[0xf0],
        ];
        let mut factory = InstructionInfoFactory::new();
        let mut compared = 0;
        for prefix in prefixes {
            for (escape, opcode) in [None, Some(0x0f)]
                .into_iter()
                .flat_map(|escape| (0..=u8::MAX).map(move |opcode| (escape, opcode)))
            {
                for modrm in 0..=u8::MAX {
                    let mut bytes = prefix.to_vec();
                    bytes.extend(escape);
                    bytes.extend([opcode, modrm]);
                    bytes.resize(15, 0);
                    let Ok(layout) = decode(&bytes, 0x1000) else {
                        continue;
                    };
                    let Some(quick) = quick_flag_use(&layout) else {
                        continue;
                    };
                    if matches!(layout.kind, Kind::Invalid) {
                        panic!("{bytes:x?} is no instruction");
                    }
                    let length = usize::from(layout.length);
                    let options = iced_x86::DecoderOptions::NONE;
                    let decoded =
                        iced_x86::Decoder::with_ip(64, &bytes[..length], 0x1000, options).decode();
                    let uses = register_use(&decoded, &mut factory);
                    let expected = FlagUse {
                        read: uses.flags_read,
                        overwritten: uses.flags_overwritten,
                    };
                    assert_eq!(quick, expected, "{bytes:x?} {decoded}");
                    assert_eq!(flag_use(&decoded), expected, "{bytes:x?} {decoded}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 50_000, "only {compared} were compared");
    }
}
