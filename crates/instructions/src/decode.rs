//! Finds the parts of one x86-64 instruction: prefixes, opcode, operand bytes, and where
//! control goes next.
//!
//! This is the part of decoding that every translated instruction needs, so it is driven by
//! tables and allocates nothing. It knows the layout of all instructions and the meaning
//! only of those that the engine cannot simply copy; operands are `iced-x86`'s business
//! (see [`crate::operands`]).
//!
//! **Invariant:** layout depends on the bytes alone, never on the processor. Where makers
//! of processors differ (operand-size prefixes on near branches) the kind is
//! [`Kind::Unusual`].

mod instruction;
mod special;
mod tables;
#[cfg(test)]
mod tests;

use tables::{
    ABSOLUTE_ADDRESS, ESCAPE, IMMEDIATE_BYTES, IMMEDIATE_V, IMMEDIATE_Z, MODRM, PREFIX,
    REGISTERS_ONLY, RELATIVE, SPECIAL, UNDEFINED,
};

pub use instruction::{Encoding, Instruction, Kind, Repeat, Segment};

/// The longest instruction that a processor accepts.
pub const MAX_LENGTH: usize = 15;

/// Why there is no instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The instruction goes on after the last byte given.
    #[error("the instruction does not end within the bytes available")]
    Truncated,
    /// More than fifteen bytes: the processor raises a general-protection fault.
    #[error("the instruction is longer than 15 bytes")]
    TooLong,
}

/// An FS override is in force.
const FLAG_FS: u16 = 1 << 0;
/// A GS override is in force.
const FLAG_GS: u16 = 1 << 1;
const FLAG_OPERAND_SIZE: u16 = 1 << 2;
const FLAG_ADDRESS_SIZE: u16 = 1 << 3;
const FLAG_LOCK: u16 = 1 << 4;
/// The last repeat prefix is F3.
const FLAG_REP: u16 = 1 << 5;
/// The last repeat prefix is F2.
const FLAG_REPNE: u16 = 1 << 6;
const FLAG_MODRM: u16 = 1 << 7;
const FLAG_SIB: u16 = 1 << 8;
/// ModRM names a memory operand.
const FLAG_MEMORY: u16 = 1 << 9;
const FLAG_RIP_RELATIVE: u16 = 1 << 10;
const FLAG_VEX: u16 = 1 << 11;
const FLAG_EVEX: u16 = 1 << 12;
const FLAG_XOP: u16 = 1 << 13;

/// Takes apart the instruction at address `pc`, whose bytes start `bytes`.
///
/// Give fifteen bytes or more (with 32 it is quickest), or all that are mapped if they are
/// fewer. Undefined
/// instructions are decoded too, as [`Kind::Invalid`]; an instruction that some processor
/// lacks, or that takes no `lock`, is not told from others: copied, it faults as it should.
///
/// # Errors
/// [`DecodeError::Truncated`] if there are too few bytes, [`DecodeError::TooLong`] if the
/// instruction has more than fifteen.
#[inline]
pub fn decode(bytes: &[u8], pc: u64) -> Result<Instruction, DecodeError> {
    // Room behind the instruction makes every read unconditional: whatever is read from
    // beyond the bytes given ends in a length that the check at the end refuses.
    if let Some(window) = bytes.first_chunk::<WINDOW>() {
        return decode_window(window, bytes.len(), pc);
    }
    let mut window = [0; WINDOW];
    window[..bytes.len()].copy_from_slice(bytes);
    decode_window(&window, bytes.len(), pc)
}

/// Takes apart the instruction at the start of `window`, of which `available` bytes count.
fn decode_window(
    window: &[u8; WINDOW],
    available: usize,
    pc: u64,
) -> Result<Instruction, DecodeError> {
    // Most instructions have no prefix but REX, and a one-byte opcode. They have their own copy
    // of the code, in which everything else is known to be absent.
    let has_rex = window[0] & 0xf0 == 0x40;
    let rex = if has_rex { window[0] } else { 0 };
    let position = usize::from(has_rex);
    let byte = window[position];
    let attributes = tables::ONE_BYTE[usize::from(byte)];
    if attributes & (PREFIX | ESCAPE) != 0 {
        return decode_in_general(window, available, pc);
    }
    let opcode = Opcode {
        prefixes: Prefixes {
            rex,
            extension: rex & 0xf,
            ..Prefixes::NONE
        },
        map: 0,
        byte,
        offset: position as u8,
        attributes,
    };
    decode_operands(
        Reader {
            bytes: window,
            position: position + 1,
        },
        opcode,
        available,
        pc,
    )
}

/// Takes apart an instruction of any form.
#[inline(never)]
fn decode_in_general(
    window: &[u8; WINDOW],
    available: usize,
    pc: u64,
) -> Result<Instruction, DecodeError> {
    let mut reader = Reader {
        bytes: window,
        position: 0,
    };
    let Some((first, prefixes)) = read_prefixes(&mut reader) else {
        return Err(no_instruction(available));
    };
    let opcode = read_opcode(&mut reader, first, prefixes);
    decode_operands(reader, opcode, available, pc)
}

/// Takes apart what follows the opcode, and puts everything together.
#[inline(always)]
fn decode_operands(
    mut reader: Reader<'_>,
    opcode: Opcode,
    available: usize,
    pc: u64,
) -> Result<Instruction, DecodeError> {
    let (kind, attributes) = if opcode.attributes & (SPECIAL | UNDEFINED) == 0 {
        (Kind::Plain, opcode.attributes)
    } else {
        special::examine(opcode, &reader)
    };
    let prefixes = opcode.prefixes;
    let address = read_modrm(&mut reader, attributes);
    let mut displacement_size = address.displacement_size;
    if attributes & ABSOLUTE_ADDRESS != 0 {
        displacement_size = if prefixes.flags & FLAG_ADDRESS_SIZE != 0 {
            4
        } else {
            8
        };
    }
    let immediate_size = immediate_size(attributes, prefixes);
    let displacement = reader.position;
    reader.position += usize::from(displacement_size);
    let immediate = reader.position;
    reader.position += usize::from(immediate_size);
    let target = if attributes & RELATIVE != 0 {
        let distance = reader.signed_at(immediate, immediate_size);
        pc.wrapping_add(reader.position as u64)
            .wrapping_add(distance as u64)
    } else {
        0
    };
    if reader.position > available.min(MAX_LENGTH) {
        return Err(no_instruction(available));
    }
    let flags = prefixes.flags;
    let has = |flag: u16| flags & flag != 0;
    let address_has = |flag: u16| address.flags & flag != 0;
    let offset_if = |present: bool, offset: usize| if present { offset as u8 } else { 0 };
    Ok(Instruction {
        target,
        kind,
        length: reader.position as u8,
        segment: match flags & (FLAG_FS | FLAG_GS) {
            FLAG_FS => Some(Segment::Fs),
            FLAG_GS => Some(Segment::Gs),
            _ => None,
        },
        segment_offset: prefixes.segment_offset,
        operand_size_prefix: has(FLAG_OPERAND_SIZE),
        address_size_prefix: has(FLAG_ADDRESS_SIZE),
        lock: has(FLAG_LOCK),
        repeat: match flags & (FLAG_REP | FLAG_REPNE) {
            FLAG_REP => Repeat::Rep,
            FLAG_REPNE => Repeat::Repne,
            _ => Repeat::None,
        },
        encoding: match flags & (FLAG_VEX | FLAG_EVEX | FLAG_XOP) {
            FLAG_VEX => Encoding::Vex,
            FLAG_EVEX => Encoding::Evex,
            FLAG_XOP => Encoding::Xop,
            _ => Encoding::Legacy,
        },
        rex: prefixes.rex,
        extension: prefixes.extension,
        prefix_offset: prefixes.offset,
        map: opcode.map,
        opcode: opcode.byte,
        opcode_offset: opcode.offset,
        modrm: address.modrm,
        modrm_offset: offset_if(address_has(FLAG_MODRM), usize::from(opcode.offset) + 1),
        sib: address.sib,
        sib_offset: offset_if(address_has(FLAG_SIB), usize::from(opcode.offset) + 2),
        displacement_offset: offset_if(displacement_size != 0, displacement),
        displacement_size,
        immediate_offset: offset_if(immediate_size != 0, immediate),
        immediate_size,
        rip_relative: address_has(FLAG_RIP_RELATIVE),
        memory_modrm: address_has(FLAG_MEMORY),
    })
}

/// Why the instruction has no end within the bytes that count.
#[cold]
fn no_instruction(available: usize) -> DecodeError {
    if available < MAX_LENGTH {
        DecodeError::Truncated
    } else {
        DecodeError::TooLong
    }
}

/// Room for fourteen prefixes and the longest rest: escapes, opcode, ModRM, SIB,
/// displacement and immediate. A power of two, so that an index is masked cheaply.
const WINDOW: usize = 32;

/// The bytes, and how many of them have been read.
struct Reader<'bytes> {
    bytes: &'bytes [u8; WINDOW],
    position: usize,
}

impl Reader<'_> {
    /// The byte at the position, which stays.
    #[inline(always)]
    fn peek(&self) -> u8 {
        self.bytes[self.position & (WINDOW - 1)]
    }

    /// The byte at the position, which moves on.
    #[inline(always)]
    fn next(&mut self) -> u8 {
        let byte = self.peek();
        self.position += 1;
        byte
    }

    /// The signed number of `size` (1, 2 or 4) bytes at `offset`.
    #[inline(always)]
    fn signed_at(&self, offset: usize, size: u8) -> i64 {
        let at = |index: usize| self.bytes[(offset + index) & (WINDOW - 1)];
        let word = i32::from_le_bytes([at(0), at(1), at(2), at(3)]);
        let unused_bits = 32 - 8 * u32::from(size);
        i64::from(word.wrapping_shl(unused_bits) >> unused_bits)
    }
}

/// What stands before the opcode.
#[derive(Clone, Copy)]
struct Prefixes {
    flags: u16,
    segment_offset: u8,
    rex: u8,
    extension: u8,
    offset: u8,
}

impl Prefixes {
    const NONE: Prefixes = Prefixes {
        flags: 0,
        segment_offset: 0,
        rex: 0,
        extension: 0,
        offset: 0,
    };

    /// Whether the operand size is 16 bits.
    #[inline(always)]
    fn is_narrow(self) -> bool {
        self.flags & FLAG_OPERAND_SIZE != 0 && self.extension & 8 == 0
    }
}

/// The opcode and what is known from it.
#[derive(Clone, Copy)]
struct Opcode {
    prefixes: Prefixes,
    map: u8,
    byte: u8,
    offset: u8,
    attributes: u16,
}

/// Reads prefixes in any number and order. Gives the byte after them too, or nothing if they
/// fill a whole instruction.
#[inline(always)]
fn read_prefixes(reader: &mut Reader<'_>) -> Option<(u8, Prefixes)> {
    let mut prefixes = Prefixes::NONE;
    loop {
        let here = reader.position as u8;
        let byte = reader.next();
        if byte & 0xf0 == 0x40 {
            prefixes.rex = byte;
            continue;
        }
        if tables::ONE_BYTE[usize::from(byte)] & PREFIX == 0 {
            prefixes.offset = here - u8::from(prefixes.rex != 0);
            prefixes.extension = prefixes.rex & 0xf;
            return Some((byte, prefixes));
        }
        if reader.position >= MAX_LENGTH {
            return None;
        }
        // REX counts only directly before the opcode.
        prefixes.rex = 0;
        let (replaced, flag) = match byte {
            0x64 => (FLAG_FS | FLAG_GS, FLAG_FS),
            0x65 => (FLAG_FS | FLAG_GS, FLAG_GS),
            0x66 => (0, FLAG_OPERAND_SIZE),
            0x67 => (0, FLAG_ADDRESS_SIZE),
            0xf0 => (0, FLAG_LOCK),
            0xf2 => (FLAG_REP | FLAG_REPNE, FLAG_REPNE),
            0xf3 => (FLAG_REP | FLAG_REPNE, FLAG_REP),
            _ => (0, 0),
        };
        prefixes.flags = prefixes.flags & !replaced | flag;
        if flag & (FLAG_FS | FLAG_GS) != 0 {
            prefixes.segment_offset = here;
        }
    }
}

/// Reads escapes and the opcode, of which `first` is the first byte.
#[inline(always)]
fn read_opcode(reader: &mut Reader<'_>, first: u8, prefixes: Prefixes) -> Opcode {
    let (map, byte, table) = match first {
        0x0f => match reader.next() {
            0x38 => (2, reader.next(), &tables::MODRM_ONLY),
            0x3a => (3, reader.next(), &tables::MODRM_AND_BYTE),
            byte => (1, byte, &tables::TWO_BYTE),
        },
        0xc4 | 0xc5 | 0x62 => return read_vector_opcode(reader, first, prefixes),
        0x8f if reader.peek() & 0x1f >= 8 => return read_vector_opcode(reader, first, prefixes),
        byte => (0, byte, &tables::ONE_BYTE),
    };
    Opcode {
        prefixes,
        map,
        byte,
        offset: (reader.position - 1) as u8,
        attributes: table[usize::from(byte)],
    }
}

/// Reads the payload of VEX, EVEX or XOP, whose first byte is `first`, and the opcode.
fn read_vector_opcode(reader: &mut Reader<'_>, first: u8, mut prefixes: Prefixes) -> Opcode {
    let forbidden = FLAG_OPERAND_SIZE | FLAG_LOCK | FLAG_REP | FLAG_REPNE;
    let misplaced_prefix = prefixes.rex != 0 || prefixes.flags & forbidden != 0;
    prefixes.rex = 0;
    prefixes.offset = (reader.position - 1) as u8;
    let payload = reader.next();
    let (encoding, map, wide) = match first {
        0xc5 => (FLAG_VEX, 1, 0),
        0x62 => {
            let second = reader.next();
            reader.next();
            // The bits that must be 0 and 1; other values are for processors to come.
            let reserved_bits_hold = payload & 0x08 == 0 && second & 0x04 != 0;
            (
                FLAG_EVEX,
                if reserved_bits_hold { payload & 7 } else { 0 },
                second >> 7,
            )
        }
        0xc4 => (FLAG_VEX, payload & 0x1f, reader.next() >> 7),
        _ => (FLAG_XOP, payload & 0x1f, reader.next() >> 7),
    };
    // R, X and B are stored inverted; the two-byte form has R alone.
    let registers = if first == 0xc5 {
        (!payload >> 7) << 2
    } else {
        !payload >> 5
    };
    prefixes.extension = wide << 3 | registers;
    let byte = reader.next();
    let table = match (encoding, map) {
        (FLAG_VEX | FLAG_EVEX, 1) => Some(&tables::VECTOR_TWO_BYTE),
        (FLAG_VEX | FLAG_EVEX, 2) | (FLAG_EVEX, 5 | 6) | (FLAG_XOP, 9) => Some(&tables::MODRM_ONLY),
        (FLAG_VEX | FLAG_EVEX, 3) | (FLAG_XOP, 8) => Some(&tables::MODRM_AND_BYTE),
        (FLAG_XOP, 10) => Some(&tables::MODRM_AND_DOUBLE_WORD),
        _ => None,
    };
    let is_zero_upper = encoding == FLAG_VEX && map == 1 && byte == 0x77;
    let mut attributes = match table {
        Some(_) if is_zero_upper => 0,
        Some(table) => table[usize::from(byte)],
        None => UNDEFINED,
    };
    if misplaced_prefix {
        attributes |= UNDEFINED;
    }
    let offset = (reader.position - 1) as u8;
    prefixes.flags |= encoding;
    Opcode {
        prefixes,
        map,
        byte,
        offset,
        attributes,
    }
}

/// ModRM, SIB, and how long a displacement follows.
struct Address {
    modrm: u8,
    sib: u8,
    displacement_size: u8,
    flags: u16,
}

/// Reads ModRM and SIB, where the opcode has them. Written without branches on the bytes,
/// which no processor could predict.
#[inline(always)]
fn read_modrm(reader: &mut Reader<'_>, attributes: u16) -> Address {
    let has_modrm = attributes & MODRM != 0;
    if !has_modrm {
        return Address {
            modrm: 0,
            sib: 0,
            displacement_size: 0,
            flags: 0,
        };
    }
    let modrm = reader.next();
    let mode = modrm >> 6;
    let has_memory = (mode != 3) & (attributes & REGISTERS_ONLY == 0);
    let has_sib = has_memory & (modrm & 7 == 4);
    let sib = if has_sib { reader.peek() } else { 0 };
    reader.position += usize::from(has_sib);
    let base = if has_sib { sib & 7 } else { modrm & 7 };
    let has_no_base = (mode == 0) & (base == 5);
    let size = if (mode == 2) | has_no_base {
        4
    } else {
        mode & 1
    };
    let flag = |condition: bool, flag: u16| u16::from(condition) * flag;
    Address {
        modrm,
        sib,
        displacement_size: if has_memory { size } else { 0 },
        flags: FLAG_MODRM
            | flag(has_sib, FLAG_SIB)
            | flag(has_memory, FLAG_MEMORY)
            | flag(has_memory & has_no_base & !has_sib, FLAG_RIP_RELATIVE),
    }
}

/// Bytes of immediate.
#[inline(always)]
fn immediate_size(attributes: u16, prefixes: Prefixes) -> u8 {
    let fixed = (attributes & IMMEDIATE_BYTES) as u8;
    if attributes & IMMEDIATE_Z == 0 {
        return fixed;
    }
    // REX.W wins over the operand-size prefix.
    let by_operand_size = if prefixes.is_narrow() { 2 } else { 4 };
    let is_full = attributes & IMMEDIATE_V != 0 && prefixes.extension & 8 != 0;
    fixed + if is_full { 8 } else { by_operand_size }
}
