//! System calls that a thread makes natively on its way out, before it is at its program counter
//! and without the program's noticing: a few instructions in a page of their own, which stays.

use std::io;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::Slots;
use unspool_kernel::layout;

use crate::filters::native::Passing;

/// The instruction.
pub(super) const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// A jump to the address behind it.
pub(super) const JUMP_TO_NEXT_WORD: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const PAGE: usize = 4096;

/// A system call: its number and its arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct NativeCall {
    pub(super) number: i64,
    pub(super) arguments: [u64; 2],
}

/// Registers that the calls use or the processor changes at `syscall`.
const CHANGED: [u8; 5] = [gpr::RAX, gpr::RDI, gpr::RSI, gpr::RCX, 11];

/// The instructions that make the calls, have all registers as they were, and go on at `pc`.
/// Flags stay as they are: `syscall` keeps them, and nothing else touches them.
fn emit(calls: &[NativeCall], registers: &[u64; 16], pc: u64) -> Vec<u8> {
    let mut code = Vec::with_capacity(calls.len() * CALL_LENGTH);
    for call in calls {
        load(&mut code, gpr::RAX, call.number as u64);
        load(&mut code, gpr::RDI, call.arguments[0]);
        load(&mut code, gpr::RSI, call.arguments[1]);
        code.extend(SYSCALL);
    }
    for register in CHANGED {
        load(&mut code, register, registers[usize::from(register)]);
    }
    code.extend(JUMP_TO_NEXT_WORD);
    code.extend(pc.to_le_bytes());
    code
}

/// `mov register, value`.
pub(super) fn load(code: &mut Vec<u8>, register: u8, value: u64) {
    code.extend([0x48 | register >> 3, 0xb8 | register & 7]);
    code.extend(value.to_le_bytes());
}

/// Bytes of one call: three registers and the instruction.
const CALL_LENGTH: usize = 3 * 10 + SYSCALL.len();

/// Which calls those at `start` are, for filters that are to let them pass.
pub(super) fn passing(calls: &[NativeCall], start: u64) -> impl Iterator<Item = Passing> {
    let behind = (1..).map(move |number| start + number * CALL_LENGTH as u64);
    behind.zip(calls).map(|(behind, call)| Passing {
        behind,
        number: call.number as u32,
    })
}

/// Puts the calls into memory, for a thread in this state. Returns where they begin.
///
/// # Errors
/// If the kernel gives no memory for them.
pub(super) fn place(calls: &[NativeCall], slots: &Slots) -> io::Result<u64> {
    let code = emit(calls, &slots.registers(), slots.pc.get());
    put_into_page(&code)
}

/// Puts instructions into a new page. Returns where they begin.
///
/// # Errors
/// If the kernel gives no memory for them.
pub(super) fn put_into_page(code: &[u8]) -> io::Result<u64> {
    // SAFETY: a new mapping, which is written before it becomes executable.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        std::ptr::copy_nonoverlapping(code.as_ptr(), page.cast(), code.len().min(PAGE));
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        layout::protect(page as u64, PAGE as u64, protection)?;
        Ok(page as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{NativeCall, SYSCALL, emit, passing};
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, Register};

    #[test]
    fn calls_are_made_and_registers_given_back() {
        let call = NativeCall {
            number: 3,
            arguments: [7, 9],
        };
        let registers = std::array::from_fn(|number| 100 + number as u64);
        let code = emit(&[call], &registers, 0x1234_5678_9abc);
        let behind = passing(&[call], 0).next().expect("one call");
        assert_eq!(behind.number, 3);
        assert_eq!(code[behind.behind as usize - 2..][..2], SYSCALL);
        let (code, target) = code.split_at(code.len() - 8);
        assert_eq!(target, 0x1234_5678_9abc_u64.to_le_bytes());
        let instructions: Vec<_> = Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
            .iter()
            .collect();
        let moves = |range: std::ops::Range<usize>| {
            instructions[range]
                .iter()
                .map(|it| (it.mnemonic(), it.op0_register(), it.immediate(1)))
                .collect::<Vec<_>>()
        };
        let expected = |all: &[(Register, u64)]| {
            all.iter()
                .map(|&(register, value)| (Mnemonic::Mov, register, value))
                .collect::<Vec<_>>()
        };
        let (rax, rdi, rsi) = (Register::RAX, Register::RDI, Register::RSI);
        assert_eq!(moves(0..3), expected(&[(rax, 3), (rdi, 7), (rsi, 9)]));
        assert_eq!(instructions[3].mnemonic(), Mnemonic::Syscall);
        let back = [
            (rax, 100),
            (rdi, 107),
            (rsi, 106),
            (Register::RCX, 101),
            (Register::R11, 111),
        ];
        assert_eq!(moves(4..9), expected(&back));
        assert_eq!(instructions[9].mnemonic(), Mnemonic::Jmp);
        assert_eq!(instructions[9].memory_displacement64(), code.len() as u64);
        assert_eq!(instructions.len(), 10);
    }
}
