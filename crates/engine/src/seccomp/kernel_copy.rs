//! What the kernel is given of a filter: the filter behind a few instructions that let the
//! engine's own calls pass.
//!
//! The engine judges each call of the program before it makes it. The kernel's copy stays in
//! force beyond that: for calls that supervisors answer, for 32-bit programs, which run natively,
//! and for code of the program that would run where no engine is.
//!
//! It tells calls by their addresses. The engine's executable is where the kernel puts
//! position-independent ones, above [`ENGINE_FROM`] whatever the layout, after each `execve`
//! somewhere else; the program's calls are made in a gate of the code cache, below it. That the
//! program's own code may lie above, too, makes no difference, because it never runs there.

use super::ARCHITECTURE;
use super::program::{Instruction, MOST_INSTRUCTIONS};

/// The upper half of the lowest address at which the kernel loads the engine: 16 TiB. Address
/// space for mappings begins at a third of the whole where it begins lowest.
pub(crate) const ENGINE_FROM: u32 = 0x1000;

const LOAD: u16 = 0x20;
const LOAD_CONSTANT: u16 = 0x00;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;

const ARCHITECTURE_AT: u32 = 4;
const INSTRUCTION_POINTER_ABOVE_AT: u32 = 12;

/// The kernel's copy of a filter. One that looks at the instruction pointer would see the
/// gate's: then the copy judges no 64-bit calls. `None`: it would be too long.
#[must_use]
pub(crate) fn kernel_copy(
    filter: &[Instruction],
    looks_at_pointer: bool,
) -> Option<Vec<Instruction>> {
    let step = |code, constant, yes, no| Instruction {
        code,
        yes,
        no,
        constant,
    };
    // A call above the bound is the engine's; of the others, those below are the program's.
    let lowest = if looks_at_pointer { 0 } else { ENGINE_FROM };
    let mut copy = vec![
        step(LOAD, ARCHITECTURE_AT, 0, 0),
        step(JUMP_IF_EQUAL, ARCHITECTURE, 0, 3),
        step(LOAD, INSTRUCTION_POINTER_ABOVE_AT, 0, 0),
        step(JUMP_IF_GREATER_OR_EQUAL, lowest, 0, 1),
        step(RETURN, super::verdict::ALLOW, 0, 0),
        // As the filter finds it natively.
        step(LOAD_CONSTANT, 0, 0, 0),
    ];
    copy.extend_from_slice(filter);
    (copy.len() <= MOST_INSTRUCTIONS).then_some(copy)
}

/// What stands for strict mode in the kernel.
#[must_use]
pub(crate) fn strict() -> Vec<Instruction> {
    let allowed = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_exit,
        libc::SYS_rt_sigreturn,
    ];
    let step = |code, constant, yes, no| Instruction {
        code,
        yes,
        no,
        constant,
    };
    let mut filter = vec![step(LOAD, 0, 0, 0)];
    for (index, number) in allowed.into_iter().enumerate() {
        let to_end = (allowed.len() - index) as u8;
        filter.push(step(JUMP_IF_EQUAL, number as u32, to_end, 0));
    }
    filter.push(step(RETURN, 0, 0, 0));
    filter.push(step(RETURN, super::verdict::ALLOW, 0, 0));
    filter
}
