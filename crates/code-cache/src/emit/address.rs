//! Instructions on memory that is named by registers and a constant.

use super::{Emitter, Gpr};

/// `[base + index × scale + displacement]`, with either register missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The base register.
    pub base: Option<Gpr>,
    /// The index register and 1, 2, 4 or 8.
    pub index: Option<(Gpr, u8)>,
    /// The constant part.
    pub displacement: i32,
}

impl Address {
    /// `[base + displacement]`
    #[must_use]
    pub fn at(base: Gpr, displacement: i32) -> Address {
        Address {
            base: Some(base),
            index: None,
            displacement,
        }
    }
}

impl Emitter {
    /// `lea to, address`; with `narrow` the address is cut to 32 bits.
    pub fn lea_address(&mut self, to: Gpr, address: Address, narrow: bool) {
        if narrow {
            self.bytes(&[0x67]);
        }
        self.on_address(0x48, &[0x8d], to, address);
    }

    /// An instruction on `[address]`: REX, to which registers are added, opcode, and the other
    /// operand or what extends the opcode.
    pub(crate) fn on_address(&mut self, rex: u8, opcode: &[u8], register: Gpr, address: Address) {
        let rex = rex | (register >> 3) << 2;
        if let (Some(base), None) = (address.base, address.index) {
            self.bytes(&[rex | base >> 3]);
            self.bytes(opcode);
            return self.memory_operand(register, base, address.displacement);
        }
        let index = address.index.map_or(4, |(index, _)| index);
        let base = address.base.unwrap_or(5);
        let scale = address
            .index
            .map_or(0, |(_, scale)| scale.trailing_zeros() as u8);
        let sib = scale << 6 | (index & 7) << 3 | base & 7;
        let modrm = (register & 7) << 3 | 4;
        self.bytes(&[rex | (index >> 3) << 1 | base >> 3]);
        self.bytes(opcode);
        let short = i8::try_from(address.displacement).ok();
        match (address.base, short) {
            (Some(_), Some(byte)) => {
                self.bytes(&[0x40 | modrm, sib]);
                self.bytes(&byte.to_le_bytes());
            }
            (Some(_), None) => {
                self.bytes(&[0x80 | modrm, sib]);
                self.imm32(address.displacement);
            }
            (None, _) => {
                self.bytes(&[modrm, sib]);
                self.imm32(address.displacement);
            }
        }
    }

    /// Prefixes of an operand of `size` bytes at an address. Returns REX, and the opcode given the one
    /// for bytes.
    fn begin_sized(&mut self, opcode: u8, size: u8) -> (u8, u8) {
        if size == 2 {
            self.bytes(&[0x66]);
        }
        let rex = if size == 8 { 0x48 } else { 0x40 };
        (rex, opcode | u8::from(size != 1))
    }

    /// `cmp [address], register`, `size` bytes (1, 2, 4 or 8); sets the flags.
    pub fn compare_at(&mut self, address: Address, register: Gpr, size: u8) {
        let (rex, opcode) = self.begin_sized(0x38, size);
        self.on_address(rex, &[opcode], register, address);
    }

    /// `cmp [address], constant`, `size` bytes (1, 2, 4, or 8 of a sign-extended constant); sets the
    /// flags.
    pub fn compare_constant_at(&mut self, address: Address, constant: i32, size: u8) {
        let (rex, opcode) = self.begin_sized(0x80, size);
        self.on_address(rex, &[opcode], 7, address);
        self.constant(constant, size);
    }

    /// `mov [address], constant`, `size` bytes (1, 2, 4, or 8 of a sign-extended constant).
    pub fn store_constant_at(&mut self, address: Address, constant: i32, size: u8) {
        let (rex, opcode) = self.begin_sized(0xc6, size);
        self.on_address(rex, &[opcode], 0, address);
        self.constant(constant, size);
    }

    /// The constant of an instruction with operands of `size` bytes.
    fn constant(&mut self, constant: i32, size: u8) {
        let bytes = constant.to_le_bytes();
        self.bytes(&bytes[..usize::from(size.min(4))]);
    }

    /// `mov` or `movzx register, [address]`, `size` bytes (1, 2, 4 or 8), zero-extended.
    pub fn load_at(&mut self, register: Gpr, address: Address, size: u8) {
        match size {
            1 => self.on_address(0x40, &[0x0f, 0xb6], register, address),
            2 => self.on_address(0x40, &[0x0f, 0xb7], register, address),
            4 => self.on_address(0x40, &[0x8b], register, address),
            _ => self.on_address(0x48, &[0x8b], register, address),
        }
    }

    /// `mov [address], register`, its lowest `size` bytes (1, 2, 4 or 8).
    pub fn store_at(&mut self, address: Address, register: Gpr, size: u8) {
        let (rex, opcode) = self.begin_sized(0x88, size);
        self.on_address(rex, &[opcode], register, address);
    }

    /// `lock cmpxchg [address], register`, `size` bytes (1, 2, 4 or 8): against rax; sets the flags.
    pub fn compare_exchange_at(&mut self, address: Address, register: Gpr, size: u8) {
        self.bytes(&[0xf0]);
        let (rex, opcode) = self.begin_sized(0xb0, size);
        self.on_address(rex, &[0x0f, opcode], register, address);
    }
}
