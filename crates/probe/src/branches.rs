//! Branches that a changed entry would break, and what a function's callers may rely on.

use std::collections::HashSet;

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::moved::{CodeBytes, Entry, Refusal, target};

/// A short branch reaches so far.
const SHORT: u64 = 128;
/// Linear decoding is in step with the program's instructions after a few.
const IN_STEP_AFTER: u64 = 64;
/// So many instructions are looked at to find out what a function's callers may rely on.
const MOST_FOLLOWED: usize = 20_000;

/// The function itself does not branch to what is displaced. To its beginning neither: each
/// round of a loop would look like a call.
pub(crate) fn none_back(
    code: CodeBytes<'_>,
    start: u64,
    end: u64,
    entry: &Entry,
) -> Result<(), Refusal> {
    let displaced = start..entry.at + entry.length as u64;
    for instruction in code.decode(start).take_while(|one| one.ip() < end) {
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable(instruction.ip()));
        }
        let Some(target) = target(&instruction) else {
            continue;
        };
        let is_call = instruction.flow_control() == FlowControl::Call;
        if displaced.contains(&target) && !(is_call && (target == start || target == entry.at)) {
            return Err(Refusal::BranchBack(instruction.ip()));
        }
    }
    Ok(())
}

/// No short branch of its neighbours leads to these addresses, which lie between `start` and
/// `end`.
pub(crate) fn none_nearby(
    code: CodeBytes<'_>,
    start: u64,
    end: u64,
    boundaries: &[u64],
) -> Result<(), Refusal> {
    let (Some(&first), Some(&last)) = (boundaries.first(), boundaries.last()) else {
        return Ok(());
    };
    let before = first.saturating_sub(SHORT + IN_STEP_AFTER).max(code.start);
    // Who starts in the middle of an instruction, and is not in step at the function's first, is
    // nowhere.
    let in_step = (before..start.min(before + 16))
        .find(|&from| lands_at(code, from, start))
        .unwrap_or(start);
    let neighbours = [in_step..start, end..last + SHORT + 2];
    for range in neighbours {
        let within = code
            .decode(range.start)
            .take_while(|one| one.ip() < range.end);
        for instruction in within {
            if target(&instruction).is_some_and(|target| boundaries.contains(&target)) {
                return Err(Refusal::BranchInto(instruction.ip()));
            }
        }
    }
    Ok(())
}

fn lands_at(code: CodeBytes<'_>, from: u64, at: u64) -> bool {
    let next = code
        .decode(from)
        .find(|one| one.ip() >= at || one.is_invalid());
    next.is_some_and(|one| one.ip() == at)
}

/// No long direct branch leads to these addresses. Every byte may be the first of one: what is
/// none leads to a certain place once in ten thousand images.
pub(crate) fn none_far(code: CodeBytes<'_>, boundaries: &[u64]) -> Result<(), Refusal> {
    let (Some(first), Some(last)) = (boundaries.first(), boundaries.last()) else {
        return Ok(());
    };
    // The displacement at an index leads to start + index + 4 + displacement.
    let least = first.wrapping_sub(code.start).wrapping_sub(4) as u32;
    let span = (last - first) as u32;
    let found = places(code.bytes, least, span).find_map(|index| {
        let displacement = word(&code.bytes[index..]);
        let next = code.start + index as u64 + 4;
        let target = next.wrapping_add_signed(i64::from(displacement as i32));
        let opcode = |back: usize| index.checked_sub(back).map(|at| code.bytes[at]);
        let bytes = match (opcode(2), opcode(1)) {
            (_, Some(0xe8 | 0xe9)) => 1,
            (Some(0x0f), Some(0x80..=0x8f)) => 2,
            _ => return None,
        };
        boundaries
            .contains(&target)
            .then(|| code.start + index as u64 - bytes)
    });
    found.map_or(Ok(()), |from| Err(Refusal::BranchInto(from)))
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// The indices at which a word, with the index itself, is at least `least` and at most `span`
/// more, modulo 2^32.
fn places(bytes: &[u8], least: u32, span: u32) -> impl Iterator<Item = usize> {
    const STRIDE: usize = 4096;
    let count = bytes.len().saturating_sub(3);
    let fits =
        move |word: u32, index: usize| word.wrapping_add(index as u32).wrapping_sub(least) <= span;
    (0..count).step_by(STRIDE).flat_map(move |from| {
        let to = (from + STRIDE).min(count);
        // Nearly always there is none. That is found out without branches, and word by word, so
        // that the compiler can take several at once.
        let any = (0..4.min(to - from)).any(|shift| {
            let words = bytes[from + shift..to + 3].chunks_exact(4);
            let hits = words
                .enumerate()
                .map(|(number, bytes)| fits(word(bytes), from + shift + 4 * number));
            hits.fold(false, |any, hit| any | hit)
        });
        let within = if any { from..to } else { from..from };
        within.filter(move |&index| fits(word(&bytes[index..]), index))
    })
}

/// Whether callers may rely on registers that a function need not keep, because it does not
/// touch them, or not have aligned the stack, because it does not need that. A compiler that
/// sees both may have it so (`-fipa-ra`, `-fipa-stack-alignment`), but only if it sees all that
/// the function calls. If the function calls something, however far down, that no compiler can
/// have seen (by a pointer, or in another library), it must have expected the worst.
pub(crate) fn callers_may_rely(code: CodeBytes<'_>, start: u64) -> bool {
    let mut seen = HashSet::new();
    let mut places = vec![start];
    let mut followed = 0;
    while let Some(place) = places.pop() {
        for instruction in code.decode(place) {
            if !seen.insert(instruction.ip()) {
                break;
            }
            followed += 1;
            if followed > MOST_FOLLOWED {
                return true;
            }
            if instruction.is_invalid() {
                break;
            }
            match instruction.flow_control() {
                FlowControl::IndirectCall => return false,
                // Through the table of another library's addresses; not a table of cases.
                FlowControl::IndirectBranch if is_fixed(&instruction) => return false,
                _ => {}
            }
            if let Some(target) = target(&instruction).filter(|&target| code.contains(target)) {
                places.push(target);
            }
            let goes_on = matches!(
                instruction.flow_control(),
                FlowControl::Next
                    | FlowControl::ConditionalBranch
                    | FlowControl::Call
                    | FlowControl::Interrupt
            );
            if !goes_on && instruction.mnemonic() != Mnemonic::Syscall {
                break;
            }
        }
    }
    true
}

fn is_fixed(jump: &Instruction) -> bool {
    jump.code() == Code::Jmp_rm64
        && jump.op0_kind() == OpKind::Memory
        && jump.memory_base() == Register::RIP
}
