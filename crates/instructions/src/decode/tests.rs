//! Compares the decoder with `iced-x86`, over every opcode and over random bytes.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, Register,
};

use crate::operands::register_use;

use super::{DecodeError, Encoding, Instruction, Kind, MAX_LENGTH, Repeat, Segment, decode};

const PC: u64 = 0x7fff_1234_5678;

/// A splitmix64 sequence: the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

fn segment_of(register: Register) -> Option<Segment> {
    match register {
        Register::FS => Some(Segment::Fs),
        Register::GS => Some(Segment::Gs),
        _ => None,
    }
}

/// The kind that iced's view of an instruction calls for.
fn expected_kind(iced: &iced_x86::Instruction) -> Kind {
    let base = |segment| (segment, iced.op0_register().full_register().number() as u8);
    match iced.mnemonic() {
        Mnemonic::Loopne => Kind::JrcxzOrLoop { opcode: 0xe0 },
        Mnemonic::Loope => Kind::JrcxzOrLoop { opcode: 0xe1 },
        Mnemonic::Loop => Kind::JrcxzOrLoop { opcode: 0xe2 },
        Mnemonic::Jrcxz | Mnemonic::Jecxz => Kind::JrcxzOrLoop { opcode: 0xe3 },
        Mnemonic::Ret if iced.op_count() == 0 => Kind::Return { pop: 0 },
        Mnemonic::Ret => Kind::Return {
            pop: iced.immediate16(),
        },
        Mnemonic::Retf | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Kind::FarTransfer,
        Mnemonic::Uiret => Kind::Unusual,
        Mnemonic::Syscall => Kind::Syscall,
        Mnemonic::Sysenter => Kind::Sysenter,
        Mnemonic::Int => Kind::Int {
            vector: iced.immediate8(),
        },
        Mnemonic::Int3 => Kind::Int3,
        Mnemonic::Int1 => Kind::Int1,
        Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 => Kind::Ud,
        Mnemonic::Hlt => Kind::Hlt,
        Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => Kind::PopFlags,
        Mnemonic::Fnstenv
        | Mnemonic::Fnsave
        | Mnemonic::Fxsave
        | Mnemonic::Fxsave64
        | Mnemonic::Xsave
        | Mnemonic::Xsave64
        | Mnemonic::Xsavec
        | Mnemonic::Xsavec64
        | Mnemonic::Xsaveopt
        | Mnemonic::Xsaveopt64
        | Mnemonic::Xsaves
        | Mnemonic::Xsaves64 => Kind::StoreX87State,
        Mnemonic::Cpuid => Kind::Cpuid,
        Mnemonic::Rdtsc => Kind::Rdtsc,
        Mnemonic::Rdtscp => Kind::Rdtscp,
        Mnemonic::Xgetbv => Kind::Xgetbv,
        Mnemonic::Xbegin => Kind::Xbegin,
        Mnemonic::Xend => Kind::Xend,
        Mnemonic::Xabort => Kind::Xabort,
        Mnemonic::Xtest => Kind::Xtest,
        Mnemonic::Rdfsbase | Mnemonic::Rdgsbase | Mnemonic::Wrfsbase | Mnemonic::Wrgsbase => {
            let is_fs = matches!(iced.mnemonic(), Mnemonic::Rdfsbase | Mnemonic::Wrfsbase);
            let (segment, register) = base(if is_fs { Segment::Fs } else { Segment::Gs });
            if matches!(iced.mnemonic(), Mnemonic::Rdfsbase | Mnemonic::Rdgsbase) {
                Kind::ReadSegmentBase { segment, register }
            } else {
                Kind::WriteSegmentBase { segment, register }
            }
        }
        Mnemonic::Lfs => Kind::MoveToSegment(Segment::Fs),
        Mnemonic::Lgs => Kind::MoveToSegment(Segment::Gs),
        Mnemonic::Pop | Mnemonic::Mov if segment_of(iced.op0_register()).is_some() => {
            Kind::MoveToSegment(segment_of(iced.op0_register()).unwrap())
        }
        Mnemonic::Push if segment_of(iced.op0_register()).is_some() => {
            Kind::ReadSegment(segment_of(iced.op0_register()).unwrap())
        }
        Mnemonic::Mov if segment_of(iced.op1_register()).is_some() => {
            Kind::ReadSegment(segment_of(iced.op1_register()).unwrap())
        }
        _ => match iced.flow_control() {
            FlowControl::ConditionalBranch => Kind::Jcc {
                condition: iced.condition_code() as u8 - 1,
            },
            FlowControl::UnconditionalBranch => Kind::JumpDirect,
            FlowControl::Call if iced.is_call_near() => Kind::CallDirect,
            FlowControl::IndirectBranch if iced.is_jmp_near_indirect() => Kind::JumpIndirect,
            FlowControl::IndirectCall if iced.is_call_near_indirect() => Kind::CallIndirect,
            FlowControl::IndirectBranch | FlowControl::IndirectCall => Kind::FarTransfer,
            _ => Kind::Plain,
        },
    }
}

/// Whether a kind is a near branch, for which an operand-size prefix makes trouble.
fn is_near_branch(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Jcc { .. }
            | Kind::JrcxzOrLoop { .. }
            | Kind::JumpDirect
            | Kind::CallDirect
            | Kind::JumpIndirect
            | Kind::CallIndirect
            | Kind::Return { .. }
    )
}

/// Compares one instruction. Returns whether iced takes it as valid.
fn compare(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::with_ip(64, bytes, PC, DecoderOptions::NONE);
    let iced = decoder.decode();
    let ours = decode(bytes, PC);
    let case = || format!("{bytes:02x?}: iced {:?}, ours {ours:x?}", iced.code());
    if iced.is_invalid() {
        if decoder.last_error() == iced_x86::DecoderError::NoMoreBytes {
            // What iced cannot end, the decoder may refuse as undefined before its end.
            assert!(
                ours == Err(DecodeError::Truncated)
                    || ours.is_ok_and(|ours| ours.kind == Kind::Invalid)
                    || bytes.len() >= MAX_LENGTH,
                "{}",
                case()
            );
        }
        return false;
    }
    let Ok(ours) = ours else { panic!("{}", case()) };
    assert_eq!(usize::from(ours.length), iced.len(), "length of {}", case());
    let expected = expected_kind(&iced);
    if ours.kind == Kind::Unusual && is_near_branch(expected) {
        assert!(
            ours.operand_size_prefix && !ours.wide(),
            "kind of {}",
            case()
        );
        return true;
    }
    assert_eq!(ours.kind, expected, "kind of {}", case());
    let target = match expected {
        Kind::Jcc { .. }
        | Kind::JrcxzOrLoop { .. }
        | Kind::JumpDirect
        | Kind::CallDirect
        | Kind::Xbegin => iced.near_branch_target(),
        _ => 0,
    };
    assert_eq!(ours.target, target, "target of {}", case());
    assert_eq!(
        ours.rip_relative,
        iced.is_ip_rel_memory_operand(),
        "rip of {}",
        case()
    );
    compare_offsets(&ours, &decoder.get_constant_offsets(&iced), &case);
    if (0..iced.op_count()).any(|operand| iced.op_kind(operand) == iced_x86::OpKind::Memory)
        && iced.mnemonic() != Mnemonic::Lea
    {
        assert_eq!(
            ours.segment,
            segment_of(iced.memory_segment()),
            "segment of {}",
            case()
        );
        let is_without_modrm = iced.mnemonic() == Mnemonic::Xlatb
            || ours.map == 0 && matches!(ours.opcode, 0xa0..=0xa3);
        assert_eq!(
            ours.has_memory_modrm(),
            !is_without_modrm,
            "ModRM of {}",
            case()
        );
    }
    if let Some(segment_offset) = ours.segment.map(|_| usize::from(ours.segment_offset)) {
        assert!(
            matches!(bytes[segment_offset], 0x64 | 0x65),
            "segment of {}",
            case()
        );
    }
    assert_eq!(
        ours.opcode,
        bytes[usize::from(ours.opcode_offset)],
        "opcode of {}",
        case()
    );
    assert_eq!(
        ours.lock,
        iced.has_lock_prefix() || ours.lock && lock_is_else(&iced)
    );
    true
}

/// Instructions in which iced does not report the lock prefix as such: `mov cr8`.
fn lock_is_else(iced: &iced_x86::Instruction) -> bool {
    matches!(iced.code(), Code::Mov_cr_r64 | Code::Mov_r64_cr)
}

fn compare_offsets(
    ours: &Instruction,
    iced: &iced_x86::ConstantOffsets,
    case: &dyn Fn() -> String,
) {
    if iced.has_displacement() {
        assert_eq!(
            (
                usize::from(ours.displacement_offset),
                usize::from(ours.displacement_size)
            ),
            (iced.displacement_offset(), iced.displacement_size()),
            "displacement of {}",
            case()
        );
    } else {
        assert_eq!(ours.displacement_size, 0, "displacement of {}", case());
    }
    if iced.has_immediate() {
        let second = if iced.has_immediate2() {
            iced.immediate_size2()
        } else {
            0
        };
        assert_eq!(
            (
                usize::from(ours.immediate_offset),
                usize::from(ours.immediate_size)
            ),
            (iced.immediate_offset(), iced.immediate_size() + second),
            "immediate of {}",
            case()
        );
    }
}

/// Compares `head` followed by every ModRM, a few SIBs, and random bytes.
fn compare_all_forms(head: &[u8], random: &mut Random) -> u32 {
    let mut valid = 0;
    for modrm in 0..=255u8 {
        let mut bytes = [0; 24];
        random.fill(&mut bytes);
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()] = modrm;
        if random.next() & 1 == 0 {
            bytes[head.len() + 1] = bytes[head.len() + 1] & 0xf8 | 5;
        }
        valid += u32::from(compare(&bytes));
    }
    valid
}

#[test]
fn legacy_opcodes_agree_with_iced() {
    let prefixes: &[&[u8]] = &[
        &[],
        &[0x66],
        &[0xf2],
        &[0xf3],
        &[0x67],
        &[0x48],
        &[0x4f],
        &[0x66, 0x48],
        &[0xf3, 0x48],
        &[0x66, 0xf2],
        &[0xf3, 0x41],
        &[0x64],
        &[0x65, 0x2e, 0x41],
        &[0x64, 0x65, 0x67],
        &[0xf0],
        &[0x48, 0x66],
    ];
    let escapes: &[&[u8]] = &[&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    let mut random = Random(1);
    let mut valid = 0;
    for prefix in prefixes {
        for escape in escapes {
            for opcode in 0..=255u8 {
                let head = [*prefix, *escape, &[opcode]].concat();
                valid += compare_all_forms(&head, &mut random);
            }
        }
    }
    assert!(
        valid > 1_500_000,
        "only {valid} valid instructions were compared"
    );
}

#[test]
fn now_extensions_agree_with_iced() {
    let mut random = Random(2);
    let mut valid = 0;
    for suffix in 0..=255u8 {
        for (form, end) in [
            (vec![0xc1], 3),
            (vec![0x45, 0x10], 4),
            (vec![0x04, 0x88], 4),
        ] {
            let mut bytes = [0; 24];
            random.fill(&mut bytes);
            bytes[..2].copy_from_slice(&[0x0f, 0x0f]);
            bytes[2..end].copy_from_slice(&form);
            bytes[end] = suffix;
            valid += u32::from(compare(&bytes));
        }
    }
    assert!(valid >= 60, "only {valid} valid instructions were compared");
}

#[test]
fn vector_opcodes_agree_with_iced() {
    let mut random = Random(3);
    let mut valid = 0;
    for opcode in 0..=255u8 {
        for third in [
            0x78, 0x79, 0x7a, 0x7b, 0x7c, 0x7d, 0xf8, 0xf9, 0xfa, 0xfb, 0xfd, 0x31,
        ] {
            valid += compare_all_forms(&[0xc5, third, opcode], &mut random);
            for map in [1, 2, 3, 7] {
                for extension in [0xe0, 0x40] {
                    let head = [0xc4, extension | map, third, opcode];
                    valid += compare_all_forms(&head, &mut random);
                }
            }
            for map in [8, 9, 10] {
                valid += compare_all_forms(&[0x8f, 0xe0 | map, third, opcode], &mut random);
            }
        }
    }
    assert!(
        valid > 150_000,
        "only {valid} valid instructions were compared"
    );
}

#[test]
fn wide_vector_opcodes_agree_with_iced() {
    let mut random = Random(4);
    let mut valid = 0;
    for opcode in 0..=255u8 {
        for second in [0x7c, 0x7d, 0x7e, 0x7f, 0xfc, 0xfd, 0xfe, 0xff, 0x35, 0xb6] {
            for map in 0..8 {
                for third in [0x08, 0x28, 0x48, 0x49, 0xc9, 0x19, 0x58] {
                    let first = 0xf0 & random.next() as u8 | map;
                    valid += compare_all_forms(&[0x62, first, second, third, opcode], &mut random);
                }
            }
        }
    }
    assert!(
        valid > 500_000,
        "only {valid} valid instructions were compared"
    );
}

#[test]
fn random_bytes_agree_with_iced() {
    let mut random = Random(5);
    let mut valid = 0;
    for round in 0..4_000_000 {
        let mut bytes = [0; 15];
        random.fill(&mut bytes);
        // Every other string is made of prefixes first.
        if round & 1 == 0 {
            const PREFIXES: [u8; 12] = [
                0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3, 0x48, 0x4d,
            ];
            let count = (random.next() % 5) as usize;
            for byte in &mut bytes[..count] {
                *byte = PREFIXES[(random.next() % 12) as usize];
            }
        }
        valid += u32::from(compare(&bytes));
    }
    assert!(
        valid > 2_000_000,
        "only {valid} valid instructions were compared"
    );
}

/// No instruction writes one of the upper registers of which it is not said that it may; and of most others it
/// is not said.
#[test]
fn what_may_write_an_upper_register_is_told() {
    let legacy: &[&[u8]] = &[&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    let vector: &[&[u8]] = &[&[0xc5], &[0xc4], &[0x62], &[0x8f]];
    let mut random = Random(7);
    let (mut written, mut said, mut asked) = (0, 0, 0);
    for _ in 0..1_000_000 {
        let mut bytes = [0; 24];
        random.fill(&mut bytes);
        let choice = random.next();
        let place = choice as usize % legacy.len();
        let head = match choice >> 8 & 1 {
            0 => vector[place].to_vec(),
            _ => [&[0x40 | (choice >> 16) as u8 & 0xf], legacy[place]].concat(),
        };
        bytes[..head.len()].copy_from_slice(&head);
        let iced = Decoder::with_ip(64, &bytes, PC, DecoderOptions::NONE).decode();
        let Ok(ours) = decode(&bytes, PC) else {
            continue;
        };
        if iced.is_invalid() || iced.is_privileged() || ours.kind == Kind::Syscall {
            continue;
        }
        let uses = register_use(&iced, &mut InstructionInfoFactory::new());
        for register in 8..16 {
            let may_write = ours.may_write(register, &bytes);
            let writes = uses.written & 1 << register != 0;
            assert!(may_write || !writes, "r{register}: {iced} {bytes:02x?}");
            written += u32::from(writes);
            said += u32::from(may_write);
            asked += 1;
        }
    }
    assert!(written > 20_000, "{written} of {asked} write one");
    assert!(said < asked / 5, "it is said of {said} of {asked}");
}

#[test]
fn short_slices_are_truncated_never_misread() {
    let mut random = Random(6);
    for _ in 0..300_000 {
        let mut bytes = [0; 15];
        random.fill(&mut bytes);
        let whole = decode(&bytes, PC);
        for available in 0..bytes.len() {
            match (decode(&bytes[..available], PC), whole) {
                (Err(error), Ok(whole)) => {
                    assert_eq!(error, DecodeError::Truncated);
                    assert!(usize::from(whole.length) > available, "{bytes:02x?}");
                }
                (Ok(part), whole) => assert_eq!(Ok(part), whole, "{bytes:02x?}"),
                (Err(error), Err(_)) => assert_eq!(error, DecodeError::Truncated),
            }
        }
    }
}

#[test]
fn sixteen_bytes_are_too_many() {
    let mut bytes = [0x66; 16];
    assert_eq!(decode(&bytes, PC), Err(DecodeError::TooLong));
    bytes[14] = 0x90;
    assert_eq!(decode(&bytes, PC).unwrap().length, 15);
    // 13 prefixes, an opcode and an immediate of two bytes are one byte too many.
    bytes[13] = 0x05;
    assert_eq!(decode(&bytes, PC).unwrap_err(), DecodeError::TooLong);
    assert_eq!(
        decode(&bytes[..14], PC).unwrap_err(),
        DecodeError::Truncated
    );
}

#[test]
fn parts_are_where_they_should_be() {
    // mov qword fs:[rax + rcx*4 + 0x12345678], 0x55
    let bytes = [
        0x64, 0x48, 0xc7, 0x84, 0x88, 0x78, 0x56, 0x34, 0x12, 0x55, 0, 0, 0,
    ];
    let instruction = decode(&bytes, PC).unwrap();
    assert_eq!(instruction.segment, Some(Segment::Fs));
    assert_eq!(instruction.segment_offset, 0);
    assert_eq!((instruction.rex, instruction.prefix_offset), (0x48, 1));
    assert_eq!((instruction.opcode, instruction.opcode_offset), (0xc7, 2));
    assert_eq!((instruction.modrm_offset, instruction.sib_offset), (3, 4));
    assert_eq!(
        (
            instruction.displacement_offset,
            instruction.displacement_size
        ),
        (5, 4)
    );
    assert_eq!(
        (instruction.immediate_offset, instruction.immediate_size),
        (9, 4)
    );
    assert_eq!((instruction.length, instruction.kind), (13, Kind::Plain));
    // vpermq zmm31{k1}, zmm30, [r9]: R', B and W come out as REX would have them.
    let instruction = decode(&[0x62, 0x42, 0x8d, 0x41, 0x36, 0x39], PC).unwrap();
    assert_eq!(instruction.encoding, Encoding::Evex);
    assert_eq!(instruction.extension, 0b1101);
    // rep movsb; the last repeat prefix wins.
    let instruction = decode(&[0xf2, 0xf3, 0xa4], PC).unwrap();
    assert_eq!(instruction.repeat, Repeat::Rep);
}

#[test]
fn undefined_opcodes_are_invalid() {
    for bytes in [
        &[0x06][..],
        &[0xd6],
        &[0x0f, 0x04],
        &[0xff, 0xff],
        &[0x8e, 0xc8],
        &[0x66, 0xc5, 0xf9, 0x6f, 0xc0],
        &[0x48, 0xc5, 0xf9, 0x6f, 0xc0],
        &[0xc4, 0xe0, 0x79, 0x6f, 0xc0],
    ] {
        assert_eq!(
            decode(bytes, PC).unwrap().kind,
            Kind::Invalid,
            "{bytes:02x?}"
        );
    }
}
