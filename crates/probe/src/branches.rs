//! Branches that a changed entry would break, and what a function's callers may rely on.

use std::collections::HashSet;
use std::ops::Range;

use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::code_bytes::{CodeBytes, target};
use crate::refusal::Refusal;

/// A short branch reaches so far.
const SHORT: u64 = 128;
/// Linear decoding is in step with the program's instructions after a few.
const IN_STEP_AFTER: u64 = 64;
/// So many instructions are looked at to find out what a function's callers may rely on.
const MOST_FOLLOWED: usize = 20_000;

/// The function itself does not branch to what is displaced of its entry. To its beginning
/// neither: each round of a loop would look like a call.
pub(crate) fn none_back(
    code: CodeBytes<'_>,
    start: u64,
    end: u64,
    entry: Range<u64>,
) -> Result<(), Refusal> {
    let displaced = start..entry.end;
    for instruction in code.decode(start).take_while(|one| one.ip() < end) {
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable(instruction.ip()));
        }
        let Some(target) = target(&instruction) else {
            continue;
        };
        let is_call = instruction.flow_control() == FlowControl::Call;
        if displaced.contains(&target) && !(is_call && (target == start || target == entry.start)) {
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
