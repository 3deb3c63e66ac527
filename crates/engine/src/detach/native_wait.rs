//! A wait that the engine has interrupted goes on natively, for what is left of it.
//!
//! The program's own `syscall` instruction would begin the wait anew, because its registers say
//! how long it is. So the thread makes the call in a page of its own, where one register is
//! another one, and goes on behind the program's instruction.

use std::io;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::Slots;

use super::native_calls::{JUMP_TO_NEXT_WORD, SYSCALL, load, put_into_page};
use crate::call::relative_waits::{RelativeWait, TimeLeft};
use crate::call::{ARGUMENTS, SYSCALL_LENGTH};
use crate::filters::native::Passing;

/// What the instructions read: the register's value, and what it may point to. It stays.
#[repr(C)]
#[derive(Debug, Default)]
struct Data {
    argument: u64,
    left: TimeLeft,
}

/// A wait that is about to go on.
pub(super) struct NativeWait {
    wait: RelativeWait,
    data: &'static mut Data,
    /// Where the thread goes on.
    pub(super) start: u64,
    /// The call, for filters that are to let it pass.
    pub(super) passing: Passing,
}

/// Bytes up to the end of the call.
const CALL_END: u64 = 10 + 3 + SYSCALL.len() as u64;

impl NativeWait {
    /// Of a thread that stands at the call.
    ///
    /// # Errors
    /// If the kernel gives no memory for it.
    pub(super) fn new(wait: RelativeWait, slots: &Slots) -> io::Result<NativeWait> {
        let data: &mut Data = Box::leak(Box::default());
        let register = ARGUMENTS[wait.argument()];
        let behind = slots.pc.get() + SYSCALL_LENGTH;
        let original = slots.registers[usize::from(register)].get();
        let code = emit(register, &raw const data.argument as u64, original, behind);
        let start = put_into_page(&code)?;
        let passing = Passing {
            behind: start + CALL_END,
            number: slots.registers[usize::from(gpr::RAX)].get() as u32,
        };
        Ok(NativeWait {
            wait,
            data,
            start,
            passing,
        })
    }

    /// The thread is about to leave: says what is left now. The C library cannot be asked for the
    /// time any more.
    pub(super) fn measure(self) {
        let left = self.wait.left_ns();
        self.data.argument = self.wait.put(left, &mut self.data.left);
    }
}

/// The call with one register from memory, which then gets its value back. Flags stay as they
/// are, and rcx is what `syscall` makes it in the program.
fn emit(register: u8, argument_at: u64, original: u64, behind: u64) -> Vec<u8> {
    let mut code = Vec::new();
    load(&mut code, register, argument_at);
    // mov register, [register]: none of the six needs a displacement or an index.
    let extension = if register >= 8 { 0b101 } else { 0 };
    code.extend([0x48 | extension, 0x8b, (register & 7) << 3 | register & 7]);
    code.extend(SYSCALL);
    load(&mut code, register, original);
    load(&mut code, gpr::RCX, behind);
    code.extend(JUMP_TO_NEXT_WORD);
    code.extend(behind.to_le_bytes());
    code
}

#[cfg(test)]
mod tests {
    use super::{ARGUMENTS, CALL_END, SYSCALL, emit};
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};

    const REGISTERS: [Register; 6] = [
        Register::RDI,
        Register::RSI,
        Register::RDX,
        Register::R10,
        Register::R8,
        Register::R9,
    ];

    #[test]
    fn one_register_is_another_during_the_call() {
        for (number, register) in ARGUMENTS.into_iter().zip(REGISTERS) {
            let code = emit(number, 0x1111, 0x2222, 0x3333);
            assert_eq!(code[CALL_END as usize - 2..][..2], SYSCALL);
            let (code, target) = code.split_at(code.len() - 8);
            assert_eq!(target, 0x3333_u64.to_le_bytes());
            let all: Vec<_> = Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
                .iter()
                .collect();
            let mnemonics = all.iter().map(iced_x86::Instruction::mnemonic);
            let (mov, call, jump) = (Mnemonic::Mov, Mnemonic::Syscall, Mnemonic::Jmp);
            assert!(
                mnemonics.eq([mov, mov, call, mov, mov, jump]),
                "{register:?}"
            );
            let constant = |place: usize| (all[place].op0_register(), all[place].immediate(1));
            assert_eq!(constant(0), (register, 0x1111));
            let read = &all[1];
            assert_eq!(
                (read.op0_register(), read.op1_kind()),
                (register, OpKind::Memory)
            );
            assert_eq!(read.memory_base(), register);
            assert_eq!(read.memory_index(), Register::None);
            assert_eq!(read.memory_displacement64(), 0);
            assert_eq!(constant(3), (register, 0x2222));
            assert_eq!(constant(4), (Register::RCX, 0x3333));
            assert_eq!(all[5].memory_displacement64(), code.len() as u64);
        }
    }
}
