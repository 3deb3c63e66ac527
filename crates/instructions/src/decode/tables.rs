//! The opcode maps: what follows each opcode, drawn as the manuals draw them.
//!
//! Each row is sixteen opcodes, each opcode one letter. Sources: Intel SDM volume 2
//! appendix A, AMD APM volume 3 appendix A.

/// The number of bytes of immediate that follow, whatever the operand size.
pub(super) const IMMEDIATE_BYTES: u16 = 7;
/// A ModRM byte follows.
pub(super) const MODRM: u16 = 1 << 3;
/// Two or four bytes of immediate follow, by operand size.
pub(super) const IMMEDIATE_Z: u16 = 1 << 4;
/// With [`IMMEDIATE_Z`]: with REX.W eight bytes follow.
pub(super) const IMMEDIATE_V: u16 = 1 << 5;
/// An absolute address follows, of address size.
pub(super) const ABSOLUTE_ADDRESS: u16 = 1 << 6;
/// The immediate is a branch displacement.
pub(super) const RELATIVE: u16 = 1 << 7;
/// ModRM names two registers, whatever its `mod` field says.
pub(super) const REGISTERS_ONLY: u16 = 1 << 8;
/// The kind or the immediate is not told by the table alone.
pub(super) const SPECIAL: u16 = 1 << 9;
/// A legacy or REX prefix.
pub(super) const PREFIX: u16 = 1 << 10;
/// Another map or another encoding may follow.
pub(super) const ESCAPE: u16 = 1 << 12;
/// Not an instruction.
pub(super) const UNDEFINED: u16 = 1 << 11;

/// The attributes that a letter of the maps stands for.
const fn attributes(letter: u8) -> u16 {
    match letter {
        b'.' => 0,
        b'm' => MODRM,
        b'b' => MODRM | 1,
        b'z' => MODRM | IMMEDIATE_Z,
        b'i' => 1,
        b'I' => IMMEDIATE_Z,
        b'v' => IMMEDIATE_Z | IMMEDIATE_V,
        b'o' => ABSOLUTE_ADDRESS,
        b'j' => RELATIVE | SPECIAL | 1,
        b'J' => RELATIVE | SPECIAL | 4,
        b'c' => MODRM | REGISTERS_ONLY,
        b'S' => SPECIAL,
        b'M' => MODRM | SPECIAL,
        b'p' => PREFIX,
        b'e' => ESCAPE,
        b'E' => ESCAPE | MODRM | SPECIAL,
        b'X' => UNDEFINED,
        b'x' => UNDEFINED | MODRM,
        _ => panic!("unknown letter in an opcode map"),
    }
}

/// Builds a map from its sixteen rows.
const fn map(rows: [&[u8; 16]; 16]) -> [u16; 256] {
    let mut table = [0; 256];
    let mut opcode = 0;
    while opcode < 256 {
        table[opcode] = attributes(rows[opcode >> 4][opcode & 15]);
        opcode += 1;
    }
    table
}

/// A map whose opcodes are all alike.
const fn uniform_map(letter: u8) -> [u16; 256] {
    [attributes(letter); 256]
}

/// The one-byte opcodes in 64-bit mode.
pub(super) static ONE_BYTE: [u16; 256] = map([
    b"mmmmiIXXmmmmiIXe",
    b"mmmmiIXXmmmmiIXX",
    b"mmmmiIpXmmmmiIpX",
    b"mmmmiIpXmmmmiIpX",
    b"pppppppppppppppp",
    b"................",
    b"XXemppppIzib....",
    b"jjjjjjjjjjjjjjjj",
    b"bzXbmmmmmmmmMmME",
    b"..........X..S..",
    b"oooo....iI......",
    b"iiiiiiiivvvvvvvv",
    b"bbSSeeMMS.SSSSXS",
    b"mmmmXXX.mMmmmMmm",
    b"jjjjiiiiJJXj....",
    b"pSppS.MM......MM",
]);

/// The opcodes after 0F.
pub(super) static TWO_BYTE: [u16; 256] = map([
    b"mMmmXS....XSXm.b",
    b"mmmmmmmmmmmmmmmm",
    b"ccccXXXXmmmmmmmm",
    b".S..S.X.eXeXXXXX",
    b"mmmmmmmmmmmmmmmm",
    b"mmmmmmmmmmmmmmmm",
    b"mmmmmmmmmmmmmmmm",
    b"bbbbmmm.Mmxxmmmm",
    b"JJJJJJJJJJJJJJJJ",
    b"mmmmmmmmmmmmmmmm",
    b"SSSmbmmmSS.mbmMm",
    b"mmmmMMmmmMbmmmmm",
    b"mmbmbbbM........",
    b"mmmmmmmmmmmmmmmm",
    b"mmmmmmmmmmmmmmmm",
    b"mmmmmmmmmmmmmmmM",
]);

/// The opcodes after 0F 38; also the VEX and EVEX maps 2, 5 and 6 and the XOP map 9.
pub(super) static MODRM_ONLY: [u16; 256] = uniform_map(b'm');

/// The opcodes after 0F 3A; also the VEX and EVEX maps 3 and the XOP map 8.
pub(super) static MODRM_AND_BYTE: [u16; 256] = uniform_map(b'b');

/// The XOP map 10.
pub(super) static MODRM_AND_DOUBLE_WORD: [u16; 256] = [MODRM | 4; 256];

/// The VEX and EVEX map 1.
pub(super) static VECTOR_TWO_BYTE: [u16; 256] = {
    let mut table = uniform_map(b'm');
    let with_byte = [0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6];
    let mut index = 0;
    while index < with_byte.len() {
        table[with_byte[index]] = attributes(b'b');
        index += 1;
    }
    table
};
