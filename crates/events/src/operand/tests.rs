//! Every extent, on known answers.

use super::*;
use crate::id::PathId;
use crate::paths::PathTable;
use crate::superblock::{AccessingInstruction, Path, Superblock};

/// Addresses and sizes of one operand of `size` bytes at word 0 plus `add`.
fn check(add: i64, size: u32, extent: Extent, words: &[u64], expected: &[(u64, u32)]) {
    let operand = Operand {
        kind: AccessKind::Read,
        size,
        address: AddressSource::Word { slot: 0, add },
        extent,
    };
    assert_eq!(count_accesses(&operand, words), Ok(expected.len()));
    let accesses = expand(vec![operand.clone()], None, words);
    let found: Vec<(u64, u32)> = accesses
        .iter()
        .map(|access| (access.address, access.size))
        .collect();
    assert_eq!(found, expected, "{extent:?}");
    for (i, access) in accesses.iter().enumerate() {
        assert_eq!(access.flags.contains(AccessFlags::FIRST), i == 0);
    }
    for short in 0..words.len() {
        let _ = count_accesses(&operand, &words[..short]);
    }
    assert_eq!(count_accesses(&operand, &[]), Err(MissingWord));
}

fn expand(operands: Vec<Operand>, cas_success: Option<Slot>, words: &[u64]) -> Vec<Access> {
    let instruction = AccessingInstruction {
        pc: 3,
        atomic: cas_success.is_some(),
        cas_success,
        ticket: None,
        operands,
        ..AccessingInstruction::default()
    };
    let mut table = PathTable::default();
    table.add(&Superblock {
        instructions: vec![instruction],
        paths: vec![Path {
            accessing: 1,
            executed: 1,
            words: words.len() as u8,
        }],
        ..Superblock::default()
    });
    let code = &table.get(PathId(0)).expect("just added").code;
    let mut accesses = Vec::new();
    expand_instruction(code, &code.instructions()[0], words, 9, &mut accesses)
        .expect("enough words");
    accesses
}

#[test]
fn plain() {
    check(-8, 16, Extent::Plain, &[0x1000], &[(0xff8, 16)]);
    check(8, 16, Extent::Plain, &[u64::MAX], &[(7, 16)]);
}

#[test]
fn repeated_upwards_downwards_and_not_at_all() {
    let extent = Extent::Repeat {
        before: 1,
        after: 2,
        pointer_after: 3,
    };
    check(0, 4, extent, &[0x1000, 10, 0, 0x1028], &[(0x1000, 40)]);
    check(0, 4, extent, &[0x1000, 10, 7, 0x100c], &[(0x1000, 12)]);
    check(0, 4, extent, &[0x1000, 10, 0, 0x0fd8], &[(0xfdc, 40)]);
    check(0, 4, extent, &[0x1000, 5, 5, 0x1000], &[]);
    check(
        0,
        8,
        extent,
        &[0x1000, u64::MAX, 0, 0x1001],
        &[(0x1000, u32::MAX)],
    );
    // A segment base is in the address, but not in the pointer.
    check(0x100, 1, extent, &[0x1000, 2, 0, 0xffe], &[(0x10ff, 2)]);
}

#[test]
fn gathered() {
    let bits = Mask::Bits(1);
    let four = Extent::Indexed {
        index: 2,
        index_size: 4,
        scale: 8,
        count: 4,
        mask: bits,
    };
    let words = [0x1000, 0b1101, 0xffff_ffff_0000_0001, 0x0000_0003_8000_0000];
    let lowest = 0x1000_u64.wrapping_sub(8 << 31);
    check(0, 8, four, &words, &[(0x1008, 8), (lowest, 8), (0x1018, 8)]);
    check(0, 8, four, &[0x1000, 0, 1, 2], &[]);

    let two = Extent::Indexed {
        index: 1,
        index_size: 8,
        scale: 1,
        count: 2,
        mask: Mask::All,
    };
    let words = [0x1000, 0_u64.wrapping_sub(0x20), 0x40];
    check(0, 8, two, &words, &[(0xfe0, 8), (0x1040, 8)]);
}

#[test]
fn masked() {
    let bits = Extent::Masked {
        count: 8,
        mask: Mask::Bits(1),
    };
    check(0, 4, bits, &[0x1000, 0xff], &[(0x1000, 32)]);
    check(
        0,
        4,
        bits,
        &[0x1000, 0b1100_1101],
        &[(0x1000, 4), (0x1008, 8), (0x1018, 8)],
    );
    check(0, 4, bits, &[0x1000, 0xf00], &[]);
    let many = Extent::Masked {
        count: 64,
        mask: Mask::Bits(1),
    };
    check(0, 1, many, &[0x1000, u64::MAX], &[(0x1000, 64)]);
}

#[test]
fn compressed() {
    let extent = Extent::Compressed { count: 8, mask: 1 };
    check(0, 4, extent, &[0x1000, 0xf81], &[(0x1000, 8)]);
    check(0, 4, extent, &[0x1000, 0xf00], &[]);
    check(
        0,
        1,
        Extent::Compressed { count: 64, mask: 1 },
        &[0x1000, u64::MAX],
        &[(0x1000, 64)],
    );
}

#[test]
fn a_compare_and_swap_may_fail() {
    let operand = |kind| Operand {
        kind,
        size: 8,
        address: AddressSource::Absolute(0x2000),
        extent: Extent::Plain,
    };
    let operands = vec![operand(AccessKind::Read), operand(AccessKind::Write)];
    let flags = AccessFlags::ATOMIC;
    let failed = flags.with(AccessFlags::FAILED_CAS);
    for (success, flags) in [(0, failed), (1, flags)] {
        let accesses = expand(operands.clone(), Some(0), &[success]);
        let found: Vec<_> = accesses
            .iter()
            .map(|access| (access.kind, access.flags))
            .collect();
        let first = flags.with(AccessFlags::FIRST);
        assert_eq!(
            found,
            [(AccessKind::Read, first), (AccessKind::Write, flags)]
        );
        assert!(
            accesses
                .iter()
                .all(|access| access.time == 9 && access.pc == 3)
        );
    }
}

#[test]
fn any_of() {
    let extent = Extent::AnyOf { count: 4, mask: 1 };
    check(4, 8, extent, &[0x1000, 0xf4], &[(0x1004, 8)]);
    check(4, 8, extent, &[0x1000, 0xf0], &[]);
}

#[test]
fn rows() {
    let extent = Extent::Rows { stride: 1, form: 2 };
    let three = [(0x1000, 48), (0x1040, 48), (0x1080, 48)];
    check(0, 1, extent, &[0x1000, 64, 0x0003_0030], &three);
    let backwards = [(0xff8, 4), (0xff0, 4)];
    let words = [0x1000, 0_u64.wrapping_sub(8), 0x0103_0004];
    check(0, 1, extent, &words, &backwards);
    check(0, 1, extent, &[0x1000, 64, 0], &[]);
}
