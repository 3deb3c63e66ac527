//! The registers of a frame, by the numbers that DWARF gives them (System V ABI for x86-64,
//! figure 3.36).

/// How many general registers there are; the return address has the number behind them.
const GENERAL: usize = 16;

/// rbx.
pub const RBX: u8 = 3;
/// rbp.
pub const RBP: u8 = 6;
/// rsp.
pub const RSP: u8 = 7;
/// The column of the return address.
pub const RETURN_ADDRESS: u8 = 16;
/// Registers that a function gives back as it got them: rbx, rbp, r12 to r15.
pub const CALLEE_SAVED: [u8; 6] = [RBX, RBP, 12, 13, 14, 15];

/// The same as bits.
const CALLEE_SAVED_BITS: u16 = {
    let mut bits = 0;
    let mut at = 0;
    while at < CALLEE_SAVED.len() {
        bits |= 1 << CALLEE_SAVED[at];
        at += 1;
    }
    bits
};

/// DWARF's number of the register with a hardware number (rax, rcx, rdx, rbx, rsp, …).
#[must_use]
pub fn from_hardware(number: u8) -> u8 {
    const LOW: [u8; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
    match LOW.get(usize::from(number)) {
        Some(&low) => low,
        None => number,
    }
}

/// What is known of the registers of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// The program counter.
    pub pc: u64,
    /// Whether the instruction at [`Registers::pc`] is the next to be executed, as in a thread that
    /// was interrupted there. Otherwise it is where a call returns to, and the call stands before.
    pub is_interrupted: bool,
    values: [u64; GENERAL],
    known: u16,
}

impl Registers {
    /// A thread that was interrupted before the instruction at `pc`. No other register is known.
    #[must_use]
    pub fn at(pc: u64) -> Registers {
        Registers {
            pc,
            is_interrupted: true,
            values: [0; GENERAL],
            known: 0,
        }
    }

    /// A function returns: what it need not give back is not known any more.
    #[inline]
    pub(crate) fn return_to(&mut self, pc: u64, sp: u64) {
        self.pc = pc;
        self.is_interrupted = false;
        self.known &= CALLEE_SAVED_BITS;
        self.set(RSP, sp);
    }

    /// The caller's, of which nothing but the return address is known.
    pub(crate) fn returning_to(pc: u64) -> Registers {
        Registers {
            is_interrupted: false,
            ..Registers::at(pc)
        }
    }

    /// Sets the register with this number of DWARF's; others than the general ones are ignored.
    #[inline]
    pub fn set(&mut self, number: u8, value: u64) {
        if let Some(place) = self.values.get_mut(usize::from(number)) {
            *place = value;
            self.known |= 1 << number;
        }
    }

    /// The register with this number of DWARF's, if it is known.
    #[must_use]
    #[inline]
    pub fn get(&self, number: u8) -> Option<u64> {
        let is_known = usize::from(number) < GENERAL && self.known >> number & 1 != 0;
        is_known.then(|| self.values[usize::from(number)])
    }

    /// The stack pointer.
    #[must_use]
    pub fn sp(&self) -> Option<u64> {
        self.get(RSP)
    }

    /// An address within the instruction that is being executed: of a frame that has called, one
    /// within the call.
    #[must_use]
    #[inline]
    pub fn lookup_address(&self) -> u64 {
        if self.is_interrupted {
            self.pc
        } else {
            self.pc.wrapping_sub(1)
        }
    }
}
