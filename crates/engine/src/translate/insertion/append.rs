//! Entries in buffers of the thread.
//!
//! All that a path appends is stored relative to the position that it found, and the position
//! moves once, where the path ends. That a buffer is full nobody tests: it ends in a page without
//! access, at which the store faults.

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::emit::{Emitter, Gpr};
use unspool_instructions::operands::MemoryOperand;

use super::walk::Walk;
use crate::translate::operand_address::{bare_base, load_address};

/// Where the position of a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferPosition {
    /// In the register that is bound for it.
    Bound,
    /// In a slot.
    Slot(i32),
}

/// An entry in the making. What is stored in it is given with its distance from the entry's start.
#[derive(Debug, Clone, Copy)]
pub struct BufferEntry {
    /// The register of the position.
    position: Gpr,
    /// How far behind the position it starts.
    start: i32,
    /// A register that may be changed.
    spare: Gpr,
}

impl Walk<'_> {
    /// An entry that starts so far behind the position, if a register can be had beside those that
    /// are read for it. Its registers may be used until the next instruction of the program.
    ///
    /// # Panics
    /// If no registers are bound.
    pub fn begin_entry(
        &mut self,
        position: BufferPosition,
        start: i32,
        read: u16,
    ) -> Option<BufferEntry> {
        let binding = self.binding.expect("who appends has registers bound");
        let BufferPosition::Slot(slot) = position else {
            return Some(BufferEntry::bound(binding, start));
        };
        let spare = self
            .borrowed
            .take_one(&mut self.builder, read | binding.mask())?;
        let position = binding.scratch();
        self.builder.code.load_slot(position, slot);
        Some(BufferEntry {
            position,
            start,
            spare,
        })
    }

    /// Emits the move of a position. Scratch loses its content unless it is bound.
    pub fn advance(&mut self, position: BufferPosition, bytes: u32) {
        let Some(binding) = self.binding else {
            return;
        };
        let code = &mut self.builder.code;
        match position {
            BufferPosition::Bound => advance_bound(code, binding, bytes),
            BufferPosition::Slot(slot) => {
                let scratch = binding.scratch();
                code.load_slot(scratch, slot);
                code.lea(scratch, scratch, bytes as i32);
                code.store_slot(slot, scratch);
            }
        }
    }
}

/// Emits the move of a position that is bound.
pub fn advance_bound(code: &mut Emitter, binding: RegisterBinding, bytes: u32) {
    code.lea(binding.buffer(), binding.buffer(), bytes as i32);
}

impl BufferEntry {
    /// One that starts so far behind the position that is bound.
    pub fn bound(binding: RegisterBinding, start: i32) -> BufferEntry {
        BufferEntry {
            position: binding.buffer(),
            start,
            spare: binding.scratch(),
        }
    }

    /// The same entry, with another register that may be changed.
    pub fn with_spare(self, spare: Gpr) -> BufferEntry {
        BufferEntry { spare, ..self }
    }

    /// The register that may be changed.
    pub fn spare(self) -> Gpr {
        self.spare
    }

    /// Emits the store of a register's lowest `size` bytes: 1, 2, 4 or 8.
    pub fn store(self, code: &mut Emitter, at: i32, from: Gpr, size: u8) {
        code.store_part(self.position, self.start + at, from, size);
    }

    /// Emits the store of the word in a slot.
    pub fn store_slot(self, code: &mut Emitter, at: i32, slot: i32, size: u8) {
        code.load_slot(self.spare, slot);
        self.store(code, at, self.spare, size);
    }

    /// Emits the store of a register's lower half as a word.
    pub fn store_half(self, code: &mut Emitter, at: i32, from: Gpr) {
        code.zero_extend(self.spare, from);
        self.store(code, at, self.spare, 8);
    }

    /// Emits the store of an operand's address. The spare register must not be the operand's base.
    pub fn store_address(self, code: &mut Emitter, at: i32, operand: &MemoryOperand, size: u8) {
        let address = bare_base(operand).unwrap_or_else(|| {
            load_address(code, self.spare, operand);
            self.spare
        });
        self.store(code, at, address, size);
    }

    /// Emits the store of a constant's lowest bytes.
    pub fn store_constant(self, code: &mut Emitter, at: i32, value: u64, size: u8) {
        if size != 8 || i32::try_from(value as i64).is_ok() {
            code.store_constant_part(self.position, self.start + at, value as i32, size);
        } else {
            code.load_immediate(self.spare, value);
            self.store(code, at, self.spare, size);
        }
    }

    /// Emits the store of 1 if a condition of the flags holds, else 0.
    pub fn store_condition(self, code: &mut Emitter, at: i32, condition: u8, size: u8) {
        if size != 1 {
            self.store_constant(code, at, 0, size);
        }
        code.store_condition(condition, self.position, self.start + at);
    }

    /// The word of the entry in memory: base and displacement.
    pub fn place(self, at: i32) -> (Gpr, i32) {
        (self.position, self.start + at)
    }
}

#[cfg(test)]
mod tests;
