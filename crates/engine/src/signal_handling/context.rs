//! The interrupted state, as the kernel passes it to a handler.

use crate::signals::{SYNCHRONOUS, TRAP_FLAG, bit};

/// The interrupted state, as the kernel passes it.
pub(super) struct Context<'a> {
    pub(super) registers: &'a mut [i64; 23],
    pub(super) mask: &'a mut u64,
}

impl Context<'_> {
    pub(super) fn pc(&self) -> u64 {
        self.registers[libc::REG_RIP as usize] as u64
    }

    pub(super) fn set_pc(&mut self, pc: u64) {
        self.registers[libc::REG_RIP as usize] = pc as i64;
    }

    pub(super) fn trap_flag(&self) -> bool {
        self.registers[libc::REG_EFL as usize] & TRAP_FLAG as i64 != 0
    }

    pub(super) fn set_trap_flag(&mut self, on: bool) {
        let flags = &mut self.registers[libc::REG_EFL as usize];
        *flags = if on {
            *flags | TRAP_FLAG as i64
        } else {
            *flags & !(TRAP_FLAG as i64)
        };
    }

    /// A general register by its number.
    pub(super) fn general(&self, number: u8) -> u64 {
        const ORDER: [i32; 16] = [
            libc::REG_RAX,
            libc::REG_RCX,
            libc::REG_RDX,
            libc::REG_RBX,
            libc::REG_RSP,
            libc::REG_RBP,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
        ];
        self.registers[ORDER[usize::from(number)] as usize] as u64
    }

    /// Goes on behind a comparison of this many bytes, whose result is that both are equal.
    pub(super) fn pass_comparison(&mut self, length: u64) {
        const ZERO_FLAG: i64 = 1 << 6;
        self.registers[libc::REG_EFL as usize] |= ZERO_FLAG;
        self.set_pc(self.pc() + length);
    }

    /// No further asynchronous signal until the program has had this one.
    pub(super) fn hold_signals(&mut self) {
        *self.mask = !SYNCHRONOUS;
    }

    /// Of those that are held, one comes all the same.
    pub(super) fn let_through(&mut self, signal: i32) {
        *self.mask &= !bit(signal);
    }
}
