//! The gate of a failed ownership check: a short call into the engine.
//!
//! The exit gate saves the whole program state, which takes longer than most changes of
//! owner. This one saves the general registers, and of the vector registers what code that
//! is compiled for the x86-64 baseline can change: the low halves of sixteen. Legacy SSE
//! instructions leave the rest of wider registers as it is. So what is called here must not
//! reach functions that choose wider registers at run time, as the C library's memory
//! functions do.

use std::cell::Cell;
use std::mem::offset_of;

use super::{Gates, reset_flags};
use crate::address::CacheAddress;
use crate::emit::{Emitter, gpr};
use crate::slots::{Room, SlotsPart, offset};

/// Which check it is, of those that a client has inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct CheckNumber(u32);

impl CheckNumber {
    /// That of the check at a place of the client's table.
    #[must_use]
    #[inline]
    pub fn at(place: usize) -> CheckNumber {
        CheckNumber(place as u32)
    }

    /// Its place in the client's table.
    #[must_use]
    #[inline]
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

/// What inserted code says of the check that has failed.
#[repr(C)]
pub struct CheckSlots {
    /// The place of its [`CheckNumber`].
    number: Cell<u64>,
    /// The address that it was about.
    pub address: Cell<u64>,
    /// Where the thread leaves the cache if need be.
    leave: Cell<u64>,
}

// SAFETY: made of cells of words; no other part has the room.
unsafe impl SlotsPart for CheckSlots {
    const ROOM: Room = Room::FailedChecks;
}

impl CheckSlots {
    const NUMBER: i32 = CheckSlots::START + offset_of!(CheckSlots, number) as i32;
    /// Where [`CheckSlots::address`] is in the slots.
    pub const ADDRESS: i32 = CheckSlots::START + offset_of!(CheckSlots, address) as i32;
    const LEAVE: i32 = CheckSlots::START + offset_of!(CheckSlots, leave) as i32;

    /// The check that has failed.
    #[must_use]
    #[inline]
    pub fn check(&self) -> CheckNumber {
        CheckNumber::at(self.number.get() as usize)
    }

    /// Emits what says that it is this check.
    pub fn emit_check(code: &mut Emitter, check: CheckNumber) {
        code.store_slot_imm32(CheckSlots::NUMBER, check.0);
    }
}

/// Where a check goes on.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Continuation {
    /// In the cache, with all registers as they were.
    target: u64,
    /// Where it leaves the cache instead if something is pending.
    leave: u64,
}

impl Continuation {
    /// At `target`, or where the cache is left instead.
    #[must_use]
    pub fn new(target: CacheAddress, leave: CacheAddress) -> Continuation {
        Continuation {
            target: target.get(),
            leave: leave.get(),
        }
    }
}

/// Whether this code was compiled for the baseline and with optimisation: only then is the
/// above true.
pub const USABLE: bool = !cfg!(target_feature = "avx") && !cfg!(debug_assertions);

/// The direction flag and the alignment check.
const ODD_FLAGS: i32 = 0x4_0400;
const VECTORS: i32 = 16;
/// Below the engine's stack pointer: the vector registers.
const FRAME: i32 = VECTORS * 16;

impl Gates {
    /// `function` is called with the program's registers in the slots; it may change them.
    pub(super) fn emit_acquire(
        &mut self,
        code: &mut Emitter,
        function: extern "C" fn() -> Continuation,
    ) {
        self.acquire = code.here();
        for register in 0..16 {
            code.store_slot(offset::register(register), register);
        }
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.bytes(&[0x9c]); // pushfq
        code.on_slot(&[0x8f], 0, offset::FLAGS); // pop
        // The status flags are dead or saved; the direction and alignment flags are neither,
        // and hardly ever set.
        code.on_slot(&[0xf7], 0, offset::FLAGS); // test dword
        code.imm32(ODD_FLAGS);
        code.bytes(&[0x74, 6]); // je over the next
        reset_flags(code);
        code.lea(gpr::RSP, gpr::RSP, -FRAME);
        move_vectors(code, 0x11);
        code.load_immediate(gpr::RAX, function as usize as u64);
        code.bytes(&[0xff, 0xd0]); // call rax
        code.store_slot(offset::TARGET, gpr::RAX);
        code.store_slot(CheckSlots::LEAVE, gpr::RDX);

        // From here on everything can be done again.
        self.acquire_return = code.here();
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.lea(gpr::RSP, gpr::RSP, -FRAME);
        move_vectors(code, 0x10);
        code.compare_slot_zero(offset::PENDING);
        code.bytes(&[0x74, 18]); // je over both moves
        let here = code.here();
        code.load_slot(gpr::RAX, CheckSlots::LEAVE);
        code.store_slot(offset::TARGET, gpr::RAX);
        debug_assert_eq!(code.here().bytes_since(here), 18);
        code.on_slot(&[0xf7], 0, offset::FLAGS); // test dword
        code.imm32(ODD_FLAGS);
        code.bytes(&[0x74, 9]); // je over the next two
        code.on_slot(&[0xff], 6, offset::FLAGS); // push
        code.bytes(&[0x9d]); // popfq
        for register in (0..16).filter(|&register| register != gpr::RSP) {
            code.load_slot(register, offset::register(register));
        }
        code.load_slot(gpr::RSP, offset::register(gpr::RSP));
        code.on_slot(&[0xff], 4, offset::TARGET); // jmp
        self.acquire_end = code.here();
    }
}

/// `movups` between xmm0 to xmm15 and the frame; opcode 0x11 stores, 0x10 loads.
fn move_vectors(code: &mut Emitter, opcode: u8) {
    for number in 0..VECTORS {
        let (high, low) = ((number as u8 >> 3) << 2, number as u8 & 7);
        code.bytes(&[0x40 | high, 0x0f, opcode, 0x84 | low << 3, 0x24]);
        code.imm32(number * 16);
    }
}
