//! Instructions whose operands or register uses are not what they seem. The plain ones are
//! compared with the processor by an integration test.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Register};
use unspool_events::AccessKind;

use super::{
    ElementMask, ExtendedStateSizes, InstructionFacts, MemoryOperand, MemoryOperands, RegisterUse,
    Shape, memory_operands, register_use,
};

const STATE_SIZES: ExtendedStateSizes = ExtendedStateSizes {
    standard: 2696,
    compacted: 2568,
    components: &[],
};

fn decode(bytes: &[u8]) -> Instruction {
    let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
    assert!(!instruction.is_invalid(), "{bytes:02x?}");
    assert_eq!(instruction.len(), bytes.len(), "{bytes:02x?}");
    instruction
}

fn describe(bytes: &[u8]) -> (MemoryOperands, InstructionFacts) {
    let mut operands = MemoryOperands::new();
    let mut info = InstructionInfoFactory::new();
    let facts = memory_operands(&decode(bytes), &mut info, STATE_SIZES, &mut operands);
    (operands, facts)
}

/// An operand in few words: `R8 fs:RAX+RCX*4-0x8`.
fn text(operand: &MemoryOperand) -> String {
    let kind = if operand.kind == AccessKind::Read {
        "R"
    } else {
        "W"
    };
    let mut text = format!("{kind}{} ", operand.size);
    if let Some(segment) = operand.segment {
        text += &format!("{segment:?}:").to_lowercase();
    }
    if operand.base != Register::None {
        text += &format!("{:?}", operand.base);
    }
    if operand.index != Register::None {
        text += &format!("+{:?}*{}", operand.index, operand.scale);
    }
    if operand.displacement != 0 {
        let sign = if operand.displacement < 0 { "-" } else { "+" };
        text += &format!("{sign}{:#x}", operand.displacement.unsigned_abs());
    }
    if operand.address_size_32 {
        text += " a32";
    }
    text
}

#[track_caller]
fn check(bytes: &[u8], expected: &[&str]) {
    let (operands, _) = describe(bytes);
    assert_eq!(
        operands.iter().map(text).collect::<Vec<_>>(),
        expected,
        "{bytes:02x?}"
    );
}

#[test]
fn addresses() {
    check(&[0x48, 0x8b, 0x44, 0x8b, 0xf8], &["R8 RBX+RCX*4-0x8"]);
    // mov eax, [rip - 16] at 0x1000, six bytes long.
    check(&[0x8b, 0x05, 0xf0, 0xff, 0xff, 0xff], &["R4 +0xff6"]);
    check(&[0x67, 0x8b, 0x03], &["R4 EBX a32"]);
    check(
        &[0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff],
        &["R8 fs:-0x8"],
    );
    // A segment override that does nothing in 64-bit mode.
    check(&[0x3e, 0x8b, 0x03], &["R4 RBX"]);
    check(&[0xa0, 1, 2, 3, 4, 5, 6, 7, 0], &["R1 +0x7060504030201"]);
    check(&[0xd7], &["R1 RBX+AL*1"]);
}

#[test]
fn stack() {
    check(&[0x50], &["W8 RSP-0x8"]);
    check(&[0x66, 0x50], &["W2 RSP-0x2"]);
    check(&[0x58], &["R8 RSP"]);
    check(&[0x5c], &["R8 RSP"]);
    check(&[0x9c], &["W8 RSP-0x8"]);
    check(&[0xff, 0x74, 0x24, 0x08], &["R8 RSP+0x8", "W8 RSP-0x8"]);
    // pop [rsp + 16] computes its address after the pointer has moved.
    check(&[0x8f, 0x44, 0x24, 0x10], &["R8 RSP", "W8 RSP+0x18"]);
    check(&[0xe8, 0, 0, 0, 0], &["W8 RSP-0x8"]);
    check(&[0xff, 0x54, 0x24, 0x08], &["R8 RSP+0x8", "W8 RSP-0x8"]);
    check(&[0xff, 0x20], &["R8 RAX"]);
    check(&[0xc2, 8, 0], &["R8 RSP"]);
    check(&[0xc9], &["R8 RBP"]);
    check(&[0xc8, 0x20, 0, 0], &["W8 RSP-0x8"]);
    check(
        &[0xc8, 0x20, 0, 3],
        &[
            "R8 RBP-0x8",
            "R8 RBP-0x10",
            "W8 RSP-0x8",
            "W8 RSP-0x10",
            "W8 RSP-0x18",
            "W8 RSP-0x20",
        ],
    );
}

#[test]
fn nothing_is_accessed() {
    check(&[0x48, 0x8d, 0x04, 0x8b], &[]);
    check(&[0x0f, 0x1f, 0x44, 0, 0], &[]);
    check(&[0x0f, 0x18, 0x08], &[]);
    check(&[0x0f, 0xae, 0x38], &[]);
    check(&[0x66, 0x0f, 0xae, 0x30], &[]);
    check(&[0xf3, 0x0f, 0x1e, 0xfa], &[]);
    check(&[0x0f, 0x01, 0xc8], &[]);
    check(&[0x0f, 0x05], &[]);
}

#[test]
fn sizes() {
    check(&[0xdb, 0x28], &["R10 RAX"]);
    check(&[0xdf, 0x30], &["W10 RAX"]);
    check(&[0xdd, 0x30], &["W108 RAX"]);
    check(&[0xd9, 0x30], &["W28 RAX"]);
    check(&[0x0f, 0xae, 0x00], &["W512 RAX"]);
    check(&[0x0f, 0xae, 0x08], &["R512 RAX"]);
    check(&[0x0f, 0xae, 0x20], &["R2696 RAX", "W2696 RAX"]);
    check(&[0x0f, 0xae, 0x28], &["R2568 RAX"]);
    check(&[0x0f, 0xc7, 0x20], &["W2568 RAX"]);
    check(&[0x66, 0x0f, 0x38, 0xf8, 0x03], &["R64 RBX", "W64 RAX"]);
    check(&[0x0f, 0x01, 0xfc], &["W64 RAX"]);
    assert_eq!(describe(&[0x0f, 0x01, 0xfc]).0[0].shape, Shape::AlignedDown);
    assert!(describe(&[0x0f, 0xae, 0x20]).1.inexact);
    assert!(!describe(&[0x0f, 0xae, 0x00]).1.inexact);
}

#[test]
fn strings() {
    let repeat = |pointer| Shape::Repeat {
        count: Register::RCX,
        pointer,
    };
    check(&[0xa4], &["R1 RSI", "W1 RDI"]);
    check(&[0xf3, 0x48, 0xa5], &["R8 RSI", "W8 RDI"]);
    check(&[0xf3, 0x64, 0xa4], &["R1 fs:RSI", "W1 RDI"]);
    check(&[0xf2, 0xae], &["R1 RDI"]);
    check(&[0xf3, 0xa6], &["R1 RSI", "R1 RDI"]);
    check(&[0x67, 0xf3, 0xab], &["W4 EDI a32"]);
    let (operands, _) = describe(&[0xf3, 0x48, 0xa5]);
    assert_eq!(operands[0].shape, repeat(Register::RSI));
    assert_eq!(operands[1].shape, repeat(Register::RDI));
    assert_eq!(describe(&[0xa4]).0[0].shape, Shape::Plain);
    let narrow = Shape::Repeat {
        count: Register::ECX,
        pointer: Register::EDI,
    };
    assert_eq!(describe(&[0x67, 0xf3, 0xab]).0[0].shape, narrow);
}

#[test]
fn bit_strings() {
    check(&[0x0f, 0xab, 0x08], &["R4 RAX", "W4 RAX"]);
    for operand in describe(&[0x0f, 0xab, 0x08]).0 {
        assert_eq!(
            operand.shape,
            Shape::BitString {
                number: Register::ECX
            }
        );
    }
    // With an immediate the number is within the operand.
    assert_eq!(describe(&[0x0f, 0xba, 0x28, 0x40]).0[0].shape, Shape::Plain);
}

#[test]
fn vectors() {
    let shape = |bytes: &[u8]| {
        let (operands, _) = describe(bytes);
        assert_eq!(operands.len(), 1);
        (operands[0].size, operands[0].shape)
    };
    let k1 = ElementMask::Bits(Register::K1);
    // vmovups [rdi]{k1}, zmm3
    let bytes = [0x62, 0xf1, 0x7c, 0x49, 0x11, 0x1f];
    assert_eq!(
        shape(&bytes),
        (
            4,
            Shape::Masked {
                count: 16,
                mask: k1
            }
        )
    );
    // vaddps zmm3{k1}, zmm1, dword bcst [rdi]
    let bytes = [0x62, 0xf1, 0x74, 0x59, 0x58, 0x1f];
    assert_eq!(
        shape(&bytes),
        (
            4,
            Shape::AnyOf {
                count: 16,
                mask: k1
            }
        )
    );
    // vcompressps [rdi]{k1}, zmm3
    let bytes = [0x62, 0xf2, 0x7d, 0x49, 0x8a, 0x1f];
    assert_eq!(
        shape(&bytes),
        (
            4,
            Shape::Compressed {
                count: 16,
                mask: Register::K1
            }
        )
    );
    // vpermd zmm3{k1}, zmm1, [rdi]: reads all of it.
    let bytes = [0x62, 0xf2, 0x75, 0x49, 0x36, 0x1f];
    assert_eq!(shape(&bytes), (64, Shape::Plain));
    // vmaskmovps ymm3, ymm1, [rdi]
    let bytes = [0xc4, 0xe2, 0x75, 0x2c, 0x1f];
    let mask = ElementMask::Vector {
        register: Register::YMM1,
        size: 4,
    };
    assert_eq!(shape(&bytes), (4, Shape::Masked { count: 8, mask }));
    // vgatherqps xmm3, [rdi + ymm2*4], xmm1: as many elements as indexes.
    let bytes = [0xc4, 0xe2, 0x75, 0x93, 0x1c, 0x97];
    let mask = ElementMask::Vector {
        register: Register::XMM1,
        size: 4,
    };
    let indexed = Shape::Indexed {
        index: Register::YMM2,
        index_size: 8,
        count: 4,
        mask,
    };
    assert_eq!(shape(&bytes), (4, indexed));
    check(&bytes, &["R4 RDI"]);
    // vpscatterdq [rdi + ymm2]{k1}, zmm3
    let bytes = [0x62, 0xf2, 0xfd, 0x49, 0xa0, 0x1c, 0x17];
    let indexed = Shape::Indexed {
        index: Register::YMM2,
        index_size: 4,
        count: 8,
        mask: k1,
    };
    assert_eq!(shape(&bytes), (8, indexed));
}

#[test]
fn atomicity() {
    let facts = |bytes: &[u8]| {
        let (_, facts) = describe(bytes);
        (facts.atomic, facts.compare_exchange)
    };
    assert_eq!(facts(&[0xf0, 0x01, 0x03]), (true, false));
    assert_eq!(facts(&[0x01, 0x03]), (false, false));
    assert_eq!(facts(&[0x87, 0x03]), (true, false));
    assert_eq!(facts(&[0x87, 0xc3]), (false, false));
    assert_eq!(facts(&[0xf0, 0x0f, 0xb1, 0x0b]), (true, true));
    assert_eq!(facts(&[0x0f, 0xb1, 0x0b]), (false, true));
    assert_eq!(facts(&[0x0f, 0xb1, 0xcb]), (false, false));
    assert_eq!(facts(&[0xf0, 0x48, 0x0f, 0xc7, 0x0b]), (true, true));
    check(&[0xf0, 0x0f, 0xb1, 0x0b], &["R4 RBX", "W4 RBX"]);
}

fn uses(bytes: &[u8]) -> RegisterUse {
    register_use(&decode(bytes), &mut InstructionInfoFactory::new())
}

const RAX: u16 = 1 << 0;
const RCX: u16 = 1 << 1;
const RDX: u16 = 1 << 2;
const RSP: u16 = 1 << 4;
const RSI: u16 = 1 << 6;
const RDI: u16 = 1 << 7;

#[test]
fn registers() {
    let check = |bytes: &[u8], read: u16, written: u16, overwritten: u16| {
        let uses = uses(bytes);
        let found = (uses.read, uses.written, uses.overwritten);
        assert_eq!(found, (read, written, overwritten), "{bytes:02x?}");
    };
    check(&[0x8b, 0xc1], RCX, RAX, RAX);
    // Writing a part keeps the rest.
    check(&[0xb4, 1], 0, RAX, 0);
    check(&[0x66, 0xb8, 1, 0], 0, RAX, 0);
    check(&[0x31, 0xc0], 0, RAX, RAX);
    check(&[0x01, 0xc8], RAX | RCX, RAX, RAX);
    // cmove rax, rcx may write nothing.
    check(&[0x48, 0x0f, 0x44, 0xc1], RCX, RAX, 0);
    check(&[0x50], RAX | RSP, RSP, RSP);
    check(&[0x48, 0xf7, 0xe1], RAX | RCX, RAX | RDX, RAX | RDX);
    check(&[0xf3, 0xa4], RCX | RSI | RDI, RCX | RSI | RDI, 0);
    check(&[0x41, 0xff, 0xd7], 1 << 15 | RSP, RSP, RSP);
    check(&[0x8b, 0x04, 0x8a], RCX | RDX, RAX, RAX);
}

#[test]
fn flags() {
    type Use = RegisterUse;
    let check = |bytes: &[u8], read: u16, written: u16, overwritten: u16| {
        let uses = uses(bytes);
        let found = (uses.flags_read, uses.flags_written, uses.flags_overwritten);
        assert_eq!(found, (read, written, overwritten), "{bytes:02x?}");
    };
    let all = Use::STATUS;
    check(&[0x01, 0xc8], 0, all, all);
    check(&[0x21, 0xc8], 0, all, all);
    check(&[0xff, 0xc0], 0, all & !Use::CARRY, all & !Use::CARRY);
    check(&[0x11, 0xc8], Use::CARRY, all, all);
    check(&[0x74, 0], Use::ZERO, 0, 0);
    check(&[0xfc], 0, Use::DIRECTION, Use::DIRECTION);
    check(&[0xf3, 0xa4], Use::DIRECTION, 0, 0);
    // A count of zero changes no flag.
    check(&[0xd3, 0xe0], 0, all, 0);
    check(&[0xc1, 0xe0, 3], 0, all, all);
    check(&[0xc1, 0xe0, 0], 0, 0, 0);
    // bt defines CF; only ZF is promised to stay, but others stay in fact.
    check(
        &[0x0f, 0xa3, 0xc8],
        0,
        all & !Use::ZERO,
        Use::CARRY | Use::AUXILIARY,
    );
    check(&[0xf3, 0xa6], Use::DIRECTION, all, 0);
    check(&[0xa6], Use::DIRECTION, all, all);
    check(&[0x8b, 0xc1], 0, 0, 0);
}

/// Every form of the one-byte opcodes and of a part of the others, with each prefix.
fn for_each_common_form(mut each: impl FnMut(&Instruction)) {
    let prefixes: [&[u8]; 8] = [
        &[],
        &[0x66],
        &[0x48],
        &[0x41],
        &[0x4f],
        &[0x67],
        &[0x64],
        &[0xf3],
    ];
    let escapes: [&[u8]; 2] = [&[], &[0x0f]];
    for prefix in prefixes {
        for escape in escapes {
            for opcode in 0..=255u8 {
                for modrm in 0..=255u8 {
                    let mut bytes = [0x24; 15];
                    let head = [prefix, escape, &[opcode, modrm]].concat();
                    bytes[..head.len()].copy_from_slice(&head);
                    let instruction =
                        Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE).decode();
                    if !instruction.is_invalid() {
                        each(&instruction);
                    }
                }
            }
        }
    }
}

#[test]
fn the_shortcut_agrees_with_the_tables() {
    let mut info = InstructionInfoFactory::new();
    let (mut short, mut long) = (MemoryOperands::new(), MemoryOperands::new());
    let mut compared = 0;
    for_each_common_form(|instruction| {
        short.clear();
        long.clear();
        let facts = super::facts_of(instruction);
        if super::simple_operands(instruction, &mut short).is_some()
            && !super::accesses_nothing(instruction)
        {
            super::looked_up_operands(instruction, &mut info, STATE_SIZES, facts, &mut long);
            assert_eq!(short, long, "{instruction:?} {:?}", instruction.code());
            compared += 1;
        }
        if super::simple::simple_use(instruction).is_some() {
            let (quick, slow) = super::registers::both_ways(instruction, &mut info);
            assert_eq!(quick, slow, "{instruction:?} {:?}", instruction.code());
        }
    });
    assert!(compared > 100_000, "only {compared} forms were compared");
}
