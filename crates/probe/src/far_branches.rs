//! Where long direct branches of an image lead.
//!
//! Every byte may be the first of one: linear decoding of a whole library takes longer and proves
//! no more. What is none leads to a certain place once in ten thousand images.

use std::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128,
    _mm_set1_epi8,
};
use std::ops::Range;

use crate::code_bytes::CodeBytes;

/// The bytes that are looked at together: with fewer, the processor more often guesses wrong how
/// many of them may be branches.
const BLOCK: usize = 64;
/// Those of them that an instruction compares.
const LANE: usize = 16;

/// The places in some code that long branches in it may lead to.
#[derive(Debug)]
pub(crate) struct FarBranches<'a> {
    code: CodeBytes<'a>,
    /// A bit for each byte of the code, and one more.
    targets: Vec<u64>,
}

impl<'a> FarBranches<'a> {
    pub(crate) fn new(code: CodeBytes<'a>) -> FarBranches<'a> {
        let length = code.bytes.len();
        let mut targets = vec![0; length / 64 + 1];
        each(code.bytes, |_, target| {
            // What leads elsewhere is noted where nothing is. Not to ask saves the processor a
            // guess.
            let target = usize::try_from(target).unwrap_or(length).min(length);
            targets[target / 64] |= 1 << (target % 64);
        });
        FarBranches { code, targets }
    }

    /// A branch to one of some addresses.
    pub(crate) fn find(&self, addresses: &[u64]) -> Option<u64> {
        let start = self.code.start;
        let index = |address: &u64| {
            let index = usize::try_from(address.checked_sub(start)?).ok()?;
            (index < self.code.bytes.len()).then_some(index)
        };
        let is_target = |index: &usize| {
            let bits = self.targets.get(index / 64).copied().unwrap_or_default();
            bits & (1 << (index % 64)) != 0
        };
        let led_to: Vec<usize> = addresses
            .iter()
            .filter_map(index)
            .filter(is_target)
            .collect();
        if led_to.is_empty() {
            return None;
        }
        let mut first = None;
        each(self.code.bytes, |last, target| {
            let is_found = usize::try_from(target).is_ok_and(|target| led_to.contains(&target));
            if first.is_none() && is_found {
                let is_one_byte = matches!(self.code.bytes[last], 0xe8 | 0xe9);
                first = Some(start + last as u64 - u64::from(!is_one_byte));
            }
        });
        first
    }
}

/// Tells of all that may be branches: where the last byte of the opcode is, and how far from the
/// beginning of the bytes they lead.
fn each(bytes: &[u8], mut tell: impl FnMut(usize, i64)) {
    let mut look = |last: usize| {
        if let Some(displacement) = bytes.get(last + 1..).and_then(<[u8]>::first_chunk) {
            let displacement = i32::from_le_bytes(*displacement);
            tell(last, (last + 5) as i64 + i64::from(displacement));
        }
    };
    let one_by_one = |range: Range<usize>, look: &mut dyn FnMut(usize)| {
        for last in range {
            let before = last.checked_sub(1).map(|before| bytes[before]);
            if matches!(
                (before, bytes[last]),
                (_, 0xe8 | 0xe9) | (Some(0x0f), 0x80..=0x8f)
            ) {
                look(last);
            }
        }
    };
    let mut at = bytes.len().min(1);
    one_by_one(0..at, &mut look);
    while let Some(block) = bytes[at..].first_chunk::<BLOCK>() {
        let before = bytes[at - 1..].first_chunk::<BLOCK>();
        // SAFETY: every processor of 64 bits has these instructions.
        let bits = |before| unsafe { last_opcode_bytes(before, block) };
        let mut may_be = before.map_or(0, bits);
        while may_be != 0 {
            look(at + may_be.trailing_zeros() as usize);
            may_be &= may_be - 1;
        }
        at += BLOCK;
    }
    one_by_one(at..bytes.len(), &mut look);
}

/// Which of some bytes may be the last of a branch's opcode, as bits; `before` begins one byte
/// earlier.
#[target_feature(enable = "sse2")]
fn last_opcode_bytes(before: &[u8; BLOCK], block: &[u8; BLOCK]) -> u64 {
    let (before, block) = (before.as_chunks::<LANE>().0, block.as_chunks::<LANE>().0);
    let lanes = before.iter().zip(block).enumerate();
    lanes.fold(0, |bits, (number, (before, lane))| {
        bits | u64::from(last_opcode_bytes_of_lane(before, lane)) << (number * LANE)
    })
}

#[target_feature(enable = "sse2")]
fn last_opcode_bytes_of_lane(before: &[u8; LANE], lane: &[u8; LANE]) -> u16 {
    let load = |bytes: &[u8; LANE]| {
        // SAFETY: so many bytes are there, and need not be aligned.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>()) }
    };
    let (before, lane) = (load(before), load(lane));
    let masked_is = |bytes, mask: u8, value: u8| {
        let masked = _mm_and_si128(bytes, _mm_set1_epi8(mask.cast_signed()));
        _mm_cmpeq_epi8(masked, _mm_set1_epi8(value.cast_signed()))
    };
    // call and jmp; 0f 80 to 0f 8f: jcc.
    let one_byte = masked_is(lane, 0xfe, 0xe8);
    let two_bytes = _mm_and_si128(masked_is(lane, 0xf0, 0x80), masked_is(before, 0xff, 0x0f));
    _mm_movemask_epi8(_mm_or_si128(one_byte, two_bytes)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, byte by byte.
    fn slowly(bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        for last in 0..bytes.len().saturating_sub(4) {
            let is_long = last > 0 && bytes[last - 1] == 0x0f && bytes[last] & 0xf0 == 0x80;
            let from = match bytes[last] {
                0xe8 | 0xe9 => last,
                _ if is_long => last - 1,
                _ => continue,
            };
            let displacement = i32::from_le_bytes(bytes[last + 1..last + 5].try_into().unwrap());
            let target = last as i64 + 5 + i64::from(displacement);
            if (0..bytes.len() as i64).contains(&target) {
                all.push((from, target as usize));
            }
        }
        all
    }

    #[test]
    fn none_is_missed_wherever_it_begins() {
        // Bytes of which many are opcodes and small displacements, by a generator of our own.
        let mut state = 1_u64;
        let mut next = |bytes: &[u8]| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            bytes[(state >> 33) as usize % bytes.len()]
        };
        for length in (0..140).chain([500]) {
            for _ in 0..200 {
                let choice = [
                    0, 0, 0, 0, 1, 7, 0x0f, 0x80, 0x8f, 0x90, 0xe8, 0xe9, 0xea, 0xff,
                ];
                let bytes: Vec<u8> = (0..length).map(|_| next(&choice)).collect();
                let found = slowly(&bytes);
                let code = CodeBytes {
                    start: 0x1000,
                    bytes: &bytes,
                };
                let branches = FarBranches::new(code);
                for target in 0..length + 2 {
                    let first = found.iter().find(|(_, found)| *found == target);
                    let first = first.map(|(from, _)| 0x1000 + *from as u64);
                    let told = branches.find(&[0x1000 + target as u64]);
                    assert_eq!(told, first, "{target} in {bytes:02x?}");
                }
            }
        }
    }
}
