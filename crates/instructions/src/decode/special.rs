//! The opcodes whose kind or immediate the maps alone do not tell.

use super::tables::{IMMEDIATE_Z, RELATIVE, UNDEFINED};
use super::{FLAG_LOCK, FLAG_OPERAND_SIZE, FLAG_REP, FLAG_REPNE, Kind, Opcode, Reader, Segment};

/// The kind of an instruction whose opcode has been read, and its completed attributes.
#[inline(always)]
pub(super) fn examine(opcode: Opcode, reader: &Reader<'_>) -> (Kind, u16) {
    let mut attributes = opcode.attributes;
    let kind = if attributes & UNDEFINED != 0 {
        Kind::Invalid
    } else if opcode.map == 0 {
        one_byte(opcode, reader, &mut attributes)
    } else {
        two_byte(opcode, reader, &mut attributes)
    };
    (kind, attributes)
}

/// `kind`, unless a lock makes this near branch undefined, or the operand-size prefix makes
/// it differ between makers.
fn near(opcode: Opcode, kind: Kind) -> Kind {
    if opcode.prefixes.flags & FLAG_LOCK != 0 {
        Kind::Invalid
    } else if opcode.prefixes.is_narrow() {
        Kind::Unusual
    } else {
        kind
    }
}

/// The selector register that a ModRM `reg` field names, if it is FS or GS.
fn selector(reg: u8) -> Option<Segment> {
    match reg {
        4 => Some(Segment::Fs),
        5 => Some(Segment::Gs),
        _ => None,
    }
}

/// The one-byte opcodes.
#[inline(always)]
fn one_byte(opcode: Opcode, reader: &Reader<'_>, attributes: &mut u16) -> Kind {
    let byte = opcode.byte;
    let next = reader.peek();
    let reg = next >> 3 & 7;
    match byte {
        0x70..=0x7f => near(
            opcode,
            Kind::Jcc {
                condition: byte & 0xf,
            },
        ),
        0xe0..=0xe3 => near(opcode, Kind::JrcxzOrLoop { opcode: byte }),
        0xe8 => near(opcode, Kind::CallDirect),
        0xe9 | 0xeb => near(opcode, Kind::JumpDirect),
        0x8c => match selector(reg) {
            Some(segment) => Kind::ReadSegment(segment),
            None if reg > 5 => Kind::Invalid,
            None => Kind::Plain,
        },
        0x8e => match selector(reg) {
            Some(segment) => Kind::MoveToSegment(segment),
            None if reg == 1 || reg > 5 => Kind::Invalid,
            None => Kind::Plain,
        },
        0x8f if reg != 0 => Kind::Invalid,
        0x8f => Kind::Plain,
        0x9d => Kind::PopFlags,
        // fnstenv and fnsave
        0xd9 | 0xdd => store_x87(reg == 6 && next < 0xc0),
        0xc2 => {
            *attributes |= 2;
            let pop = reader.signed_at(reader.position, 2) as u16;
            near(opcode, Kind::Return { pop })
        }
        0xc3 => near(opcode, Kind::Return { pop: 0 }),
        0xc6 | 0xc7 => {
            *attributes |= if byte == 0xc6 { 1 } else { IMMEDIATE_Z };
            match (byte, next) {
                (0xc6, 0xf8) => Kind::Xabort,
                (0xc7, 0xf8) => {
                    *attributes |= RELATIVE;
                    Kind::Xbegin
                }
                _ if reg == 0 => Kind::Plain,
                _ => Kind::Invalid,
            }
        }
        0xc8 => {
            *attributes |= 3;
            Kind::Plain
        }
        0xca => {
            *attributes |= 2;
            Kind::FarTransfer
        }
        0xcb | 0xcf => Kind::FarTransfer,
        0xcc => Kind::Int3,
        0xcd => {
            *attributes |= 1;
            Kind::Int { vector: next }
        }
        0xf1 => Kind::Int1,
        0xf4 => Kind::Hlt,
        0xf6 | 0xf7 => {
            if reg < 2 {
                *attributes |= if byte == 0xf6 { 1 } else { IMMEDIATE_Z };
            }
            Kind::Plain
        }
        0xfe if reg < 2 => Kind::Plain,
        0xff => match reg {
            2 => near(opcode, Kind::CallIndirect),
            4 => near(opcode, Kind::JumpIndirect),
            3 | 5 if next < 0xc0 => Kind::FarTransfer,
            0 | 1 | 6 => Kind::Plain,
            _ => Kind::Invalid,
        },
        _ => Kind::Invalid,
    }
}

/// The opcodes after 0F.
#[inline(always)]
fn two_byte(opcode: Opcode, reader: &Reader<'_>, attributes: &mut u16) -> Kind {
    let byte = opcode.byte;
    let next = reader.peek();
    match byte {
        0x01 => system_group(next, opcode),
        0x05 if opcode.prefixes.flags & FLAG_LOCK != 0 => Kind::Invalid,
        0x05 => Kind::Syscall,
        0x0b | 0xb9 | 0xff => Kind::Ud,
        0x31 => Kind::Rdtsc,
        0x34 => Kind::Sysenter,
        0x78 => {
            // AMD's extrq and insertq hold two immediates; vmread holds none.
            if opcode.prefixes.flags & (FLAG_OPERAND_SIZE | FLAG_REPNE) != 0 {
                *attributes |= 2;
            }
            Kind::Plain
        }
        0x80..=0x8f => near(
            opcode,
            Kind::Jcc {
                condition: byte & 0xf,
            },
        ),
        0xa0 => Kind::ReadSegment(Segment::Fs),
        0xa1 => Kind::MoveToSegment(Segment::Fs),
        0xa8 => Kind::ReadSegment(Segment::Gs),
        0xa9 => Kind::MoveToSegment(Segment::Gs),
        0xa2 => Kind::Cpuid,
        0xae => state_group(next, opcode),
        // xsavec and xsaves
        0xc7 => store_x87(next < 0xc0 && matches!(next >> 3 & 7, 4 | 5)),
        0xb4 | 0xb5 if next >= 0xc0 => Kind::Invalid,
        0xb4 => Kind::MoveToSegment(Segment::Fs),
        0xb5 => Kind::MoveToSegment(Segment::Gs),
        _ => {
            *attributes |= UNDEFINED;
            Kind::Invalid
        }
    }
}

/// 0F 01: what ModRM selects.
fn system_group(modrm: u8, opcode: Opcode) -> Kind {
    let prefixed = opcode.prefixes.flags & (FLAG_OPERAND_SIZE | FLAG_REP | FLAG_REPNE) != 0;
    match modrm {
        0xd0 if !prefixed => Kind::Xgetbv,
        0xd5 if !prefixed => Kind::Xend,
        0xd6 if !prefixed => Kind::Xtest,
        0xec if opcode.prefixes.flags & FLAG_REP != 0 => Kind::Unusual,
        0xf9 => Kind::Rdtscp,
        _ => Kind::Plain,
    }
}

fn store_x87(stores: bool) -> Kind {
    if stores {
        Kind::StoreX87State
    } else {
        Kind::Plain
    }
}

/// 0F AE: the accesses to segment bases are among fences and state saving.
fn state_group(modrm: u8, opcode: Opcode) -> Kind {
    if modrm < 0xc0 {
        let prefixed = opcode.prefixes.flags & (FLAG_OPERAND_SIZE | FLAG_REP | FLAG_REPNE) != 0;
        // fxsave, xsave and xsaveopt
        return store_x87(!prefixed && matches!(modrm >> 3 & 7, 0 | 4 | 6));
    }
    if opcode.prefixes.flags & FLAG_REP == 0 || modrm >= 0xe0 {
        return Kind::Plain;
    }
    let segment = if modrm & 0x08 == 0 {
        Segment::Fs
    } else {
        Segment::Gs
    };
    let register = modrm & 7 | (opcode.prefixes.extension & 1) << 3;
    if modrm & 0x10 == 0 {
        Kind::ReadSegmentBase { segment, register }
    } else {
        Kind::WriteSegmentBase { segment, register }
    }
}
