//! Jumps and calls: to known addresses, with fields that are patched while threads run them, and
//! forward to what is emitted later.

use super::Emitter;
use crate::address::CacheAddress;

impl Emitter {
    /// `jmp rel32` to a known address.
    pub fn jump(&mut self, target: CacheAddress) {
        self.bytes(&[0xe9]);
        self.relative(target);
    }

    /// `jcc rel32` to a known address; `condition` is the low nibble of the opcode.
    pub fn jump_if(&mut self, condition: u8, target: CacheAddress) {
        self.bytes(&[0x0f, 0x80 | condition]);
        self.relative(target);
    }

    /// The cache is smaller than 2 GiB, so that any of its addresses is in reach of any other.
    fn relative(&mut self, target: CacheAddress) {
        let distance = target.distance_from(self.here().plus(4));
        self.imm32(distance as i32);
    }

    /// A `jmp` (or, with a condition, `jcc`) whose 32-bit field can be patched while other
    /// threads run it: the field does not cross a cache line. Returns the field's address.
    pub fn patchable_jump(&mut self, condition: Option<u8>, target: CacheAddress) -> CacheAddress {
        let opcode_length = if condition.is_some() { 2 } else { 1 };
        let line_offset = self.here().plus(opcode_length).line_offset();
        if line_offset > 60 {
            self.nops(64 - line_offset as usize);
        }
        match condition {
            Some(condition) => self.jump_if(condition, target),
            None => self.jump(target),
        }
        self.last_field()
    }

    /// `push imm32; ret` to a cache address, with a field that can be patched as that of
    /// [`Emitter::patchable_jump`]; it holds the address. Returns the field's address.
    pub(crate) fn patchable_return(&mut self, target: CacheAddress) -> CacheAddress {
        let line_offset = self.here().plus(1).line_offset();
        if line_offset > 60 {
            self.nops(64 - line_offset as usize);
        }
        self.bytes(&[0x68]);
        let field = self.here();
        self.imm32(i32::try_from(target.get()).expect("the cache lies below 2 GiB"));
        self.bytes(&[0xc3]);
        field
    }

    /// The 32-bit field with which the last instruction ends.
    fn last_field(&self) -> CacheAddress {
        self.here().minus(4)
    }

    /// `call rel32` to where [`Emitter::land`] will be. Returns the field's address.
    pub fn call_forward(&mut self) -> CacheAddress {
        self.bytes(&[0xe8, 0, 0, 0, 0]);
        self.last_field()
    }

    /// `jmp rel32` to where [`Emitter::land`] will be. Returns the field's address.
    pub fn jump_forward(&mut self) -> CacheAddress {
        self.bytes(&[0xe9, 0, 0, 0, 0]);
        self.last_field()
    }

    /// `jcc rel32` to where [`Emitter::land`] will be. Returns the field's address.
    pub fn jump_forward_if(&mut self, condition: u8) -> CacheAddress {
        self.bytes(&[0x0f, 0x80 | condition, 0, 0, 0, 0]);
        self.last_field()
    }

    /// Points a 32-bit field that was emitted before to the next byte.
    pub fn land(&mut self, field: CacheAddress) {
        let distance = self.here().bytes_since(field.plus(4));
        self.patch32(field, distance as i32);
    }

    /// Points an 8-bit field that was emitted before to the next byte.
    pub fn land_short(&mut self, field: CacheAddress) {
        let length = self.here().bytes_since(field.plus(1));
        let length = i8::try_from(length).expect("a short jump is short");
        self.patch8(field, length as u8);
    }
}
