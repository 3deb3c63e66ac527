//! Instructions that use the thread's slots, by their displacement from FS.

use super::{Address, Emitter, Gpr, TARGET};
use crate::address::CacheAddress;
use crate::exit::Reason;
use crate::slots::{TARGET_SPILL, offset};

impl Emitter {
    fn slot_operand(&mut self, opcode: u8, register: Gpr, slot: i32) {
        let rex = 0x48 | (register >> 3) << 2;
        let modrm = 0x04 | (register & 7) << 3;
        self.bytes(&[0x64, rex, opcode, modrm, 0x25]);
        self.imm32(self.slots + slot);
    }

    /// `mov fs:[slot], register`
    pub fn store_slot(&mut self, slot: i32, register: Gpr) {
        self.slot_operand(0x89, register, slot);
    }

    /// `mov register, fs:[slot]`
    pub fn load_slot(&mut self, register: Gpr, slot: i32) {
        self.slot_operand(0x8b, register, slot);
    }

    /// Emits, where the program's value of the register of targets has changed, that its slot has it:
    /// see [`Slots::keep_target`](crate::slots::Slots::keep_target).
    pub fn keep_target(&mut self) {
        self.store_slot(offset::spill(TARGET_SPILL), TARGET);
    }

    /// `movzx register, byte fs:[slot]`
    pub fn load_slot_byte(&mut self, register: Gpr, slot: i32) {
        self.part_of_slot(&[0x40, 0x0f, 0xb6], register, slot);
    }

    /// `movzx register, word fs:[slot]`
    pub fn load_slot_half(&mut self, register: Gpr, slot: i32) {
        self.part_of_slot(&[0x40, 0x0f, 0xb7], register, slot);
    }

    /// `movsxd register, dword fs:[slot]`
    pub fn load_slot_signed(&mut self, register: Gpr, slot: i32) {
        self.part_of_slot(&[0x48, 0x63], register, slot);
    }

    fn part_of_slot(&mut self, opcode: &[u8], register: Gpr, slot: i32) {
        self.bytes(&[0x64, opcode[0] | (register >> 3) << 2]);
        self.bytes(&opcode[1..]);
        self.bytes(&[0x04 | (register & 7) << 3, 0x25]);
        self.imm32(self.slots + slot);
    }

    /// The displacement of a slot from FS.
    pub fn slot_displacement(&self, slot: i32) -> i32 {
        self.slots + slot
    }

    /// `mov dword fs:[slot], imm32`
    pub fn store_slot_imm32(&mut self, slot: i32, value: u32) {
        self.bytes(&[0x64, 0xc7, 0x04, 0x25]);
        self.imm32(self.slots + slot);
        self.imm32(value as i32);
    }

    /// `mov qword fs:[slot], imm32` (sign-extended)
    pub fn store_slot_signed(&mut self, slot: i32, value: i32) {
        self.on_slot(&[0x48, 0xc7], 0, slot);
        self.imm32(value);
    }

    /// `mov qword fs:[slot], value`: one instruction if the value is a sign-extended one of 32 bits, else
    /// one for each half.
    pub fn store_slot_constant(&mut self, slot: i32, value: u64) {
        if let Ok(value) = i32::try_from(value as i64) {
            return self.store_slot_signed(slot, value);
        }
        self.store_slot_imm32(slot, value as u32);
        self.store_slot_imm32(slot + 4, (value >> 32) as u32);
    }

    /// An instruction `opcode /extension` on a slot, for instance `push`, `pop`, `jmp`, `xrstor`.
    pub fn on_slot(&mut self, opcode: &[u8], extension: u8, slot: i32) {
        self.bytes(&[0x64]);
        self.bytes(opcode);
        self.bytes(&[0x04 | extension << 3, 0x25]);
        self.imm32(self.slots + slot);
    }

    /// `add qword fs:[slot], amount`; sets the flags.
    pub fn add_to_slot(&mut self, slot: i32, amount: i32) {
        match i8::try_from(amount) {
            Ok(byte) => {
                self.on_slot(&[0x48, 0x83], 0, slot);
                self.bytes(&byte.to_le_bytes());
            }
            Err(_) => {
                self.on_slot(&[0x48, 0x81], 0, slot);
                self.imm32(amount);
            }
        }
    }

    /// `add register, fs:[slot]` (64 bits); sets the flags.
    pub fn add_slot(&mut self, register: Gpr, slot: i32) {
        self.slot_operand(0x03, register, slot);
    }

    /// Loads one of the elements from a slot on, whose number is in a register: `size` bytes (4 or 8),
    /// sign-extended.
    pub fn load_slot_element(&mut self, to: Gpr, number: Gpr, slot: i32, size: u8) {
        let opcode = if size == 4 { 0x63 } else { 0x8b }; // movsxd, mov
        let elements = Address {
            base: None,
            index: Some((number, size)),
            displacement: self.slots + slot,
        };
        self.bytes(&[0x64]);
        self.on_address(0x48, &[opcode], to, elements);
    }

    /// `cmp dword fs:[slot], 0`; sets the flags.
    pub fn compare_slot_zero(&mut self, slot: i32) {
        self.on_slot(&[0x83], 7, slot);
        self.bytes(&[0]);
    }

    /// `cmp register, fs:[slot]`, `size` bytes (4 or 8); sets the flags.
    pub fn compare_with_slot(&mut self, register: Gpr, slot: i32, size: u8) {
        let rex = if size == 8 { 0x48 } else { 0x40 };
        self.part_of_slot(&[rex, 0x3b], register, slot);
    }

    /// `xor register, fs:[slot]`, 4 bytes; sets the flags.
    pub fn xor_slot(&mut self, register: Gpr, slot: i32) {
        self.part_of_slot(&[0x40, 0x33], register, slot);
    }

    /// `mov dword fs:[exit], imm32`: says why the cache is left.
    pub(crate) fn give_reason(&mut self, reason: Reason) {
        self.store_slot_imm32(offset::EXIT, reason.number());
    }

    /// Leaves the cache: names the exit and jumps to the exit gate.
    pub fn leave(&mut self, reason: Reason, gate: CacheAddress) {
        self.give_reason(reason);
        self.jump(gate);
    }
}
