//! What an instruction does to the registers that matter for finding a frame.

use unspool_instructions::decode::{Encoding, Instruction, Kind};

use crate::registers::{RBP, RSP, from_hardware};

/// The effect of one instruction. Registers have DWARF's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// None that matters.
    Nothing,
    /// Eight bytes are pushed: this register, if it is one.
    Push(Option<u8>),
    /// Eight bytes are popped, into this register if it is one.
    Pop(Option<u8>),
    /// A register becomes another's value and so many bytes.
    Set {
        /// Which.
        register: u8,
        /// The other, which may be the same.
        from: u8,
        /// The bytes.
        plus: i32,
    },
    /// A register is stored in memory.
    Store {
        /// Which.
        register: u8,
        /// The register of the address.
        base: u8,
        /// The bytes from there.
        offset: i32,
    },
    /// A register is loaded from memory.
    Load {
        /// Which.
        register: u8,
        /// The register of the address.
        base: u8,
        /// The bytes from there.
        offset: i32,
    },
    /// A register is cut to a multiple of a power of two.
    Align(u8),
    /// Two registers are compared: where they are equal, equality branches are taken.
    Compare(u8, u8),
    /// `leave`.
    Leave,
    /// The frame pointer becomes zero.
    ZeroFramePointer,
    /// A register becomes something else.
    Change(u8),
    /// Two registers do.
    ChangeTwo(u8, u8),
    /// A call, which changes what functions may change.
    Call,
    /// The return address of a call of the next instruction stays on the stack.
    PushNextAddress,
    /// A conditional branch: taken where the last comparison was equal, or where it was not.
    Branch {
        /// Whether it is taken where it was equal.
        if_equal: bool,
    },
}

/// What the instruction, whose bytes these are, does.
pub(super) fn effect(instruction: &Instruction, bytes: &[u8], address: u64) -> Effect {
    match instruction.kind {
        Kind::CallDirect => {
            let next = address.wrapping_add(u64::from(instruction.length));
            if instruction.target == next {
                return Effect::PushNextAddress;
            }
            return Effect::Call;
        }
        Kind::CallIndirect | Kind::Syscall => return Effect::Call,
        Kind::Jcc { condition: 4 } => return Effect::Branch { if_equal: true },
        Kind::Jcc { condition: 5 } => return Effect::Branch { if_equal: false },
        _ => {}
    }
    if instruction.encoding != Encoding::Legacy {
        return Effect::Nothing;
    }
    let operands = Operands { instruction, bytes };
    match instruction.map {
        0 => operands.one_byte(),
        1 => operands.two_bytes(),
        _ => Effect::Nothing,
    }
}

struct Operands<'a> {
    instruction: &'a Instruction,
    bytes: &'a [u8],
}

impl Operands<'_> {
    /// The register that ModRM's middle names.
    fn register(&self) -> u8 {
        let high = (self.instruction.extension & 4) << 1;
        from_hardware(self.instruction.modrm_reg() | high)
    }

    /// The register that ModRM's low bits name, where they name one.
    fn other(&self) -> Option<u8> {
        let high = (self.instruction.extension & 1) << 3;
        let number = self.instruction.modrm & 7 | high;
        (!self.instruction.has_memory_modrm()).then(|| from_hardware(number))
    }

    /// The register in the opcode's low bits.
    fn in_opcode(&self) -> u8 {
        let high = (self.instruction.extension & 1) << 3;
        from_hardware(self.instruction.opcode & 7 | high)
    }

    /// Base and displacement of a memory operand that has no index.
    fn address(&self) -> Option<(u8, i32)> {
        let instruction = self.instruction;
        if !instruction.has_memory_modrm()
            || instruction.rip_relative
            || instruction.segment.is_some()
            || instruction.address_size_prefix
        {
            return None;
        }
        let low = match (instruction.modrm & 7, instruction.modrm >> 6) {
            (4, mode) => {
                let has_index = instruction.sib >> 3 & 7 != 4 || instruction.extension & 2 != 0;
                let has_base = instruction.sib & 7 != 5 || mode != 0;
                if has_index || !has_base {
                    return None;
                }
                instruction.sib & 7
            }
            (low, _) => low,
        };
        let base = from_hardware(low | (instruction.extension & 1) << 3);
        Some((base, self.displacement()?))
    }

    fn displacement(&self) -> Option<i32> {
        let at = usize::from(self.instruction.displacement_offset);
        self.signed(at, self.instruction.displacement_size)
    }

    fn immediate(&self) -> Option<i32> {
        let at = usize::from(self.instruction.immediate_offset);
        self.signed(at, self.instruction.immediate_size)
    }

    fn signed(&self, at: usize, size: u8) -> Option<i32> {
        let bytes = self.bytes.get(at..at + usize::from(size))?;
        match bytes {
            [] => Some(0),
            [byte] => Some(i32::from(*byte as i8)),
            [a, b, c, d] => Some(i32::from_le_bytes([*a, *b, *c, *d])),
            _ => None,
        }
    }

    fn is_wide(&self) -> bool {
        self.instruction.wide()
    }

    fn one_byte(&self) -> Effect {
        match self.instruction.opcode {
            0x50..=0x57 => Effect::Push(Some(self.in_opcode())),
            0x58..=0x5f => Effect::Pop(Some(self.in_opcode())),
            0x68 | 0x6a | 0x9c => Effect::Push(None),
            0x8f if self.instruction.modrm_reg() == 0 => Effect::Pop(self.other()),
            0x9d => Effect::Pop(None),
            0xc9 => Effect::Leave,
            0x89 | 0x8b if self.is_wide() => self.move_wide(),
            0x8d => self.load_address(),
            0x31 | 0x33 if self.register() == RBP && self.other() == Some(RBP) => {
                Effect::ZeroFramePointer
            }
            0x81 | 0x83 => self.arithmetic_with_immediate(),
            0x39 | 0x3b if self.is_wide() => match self.other() {
                Some(other) => Effect::Compare(self.register(), other),
                None => Effect::Nothing,
            },
            0xff if self.instruction.modrm_reg() == 6 => Effect::Push(None),
            0x87 => match self.other() {
                Some(other) => Effect::ChangeTwo(self.register(), other),
                None => Effect::Change(self.register()),
            },
            0xb8..=0xbf => Effect::Change(self.in_opcode()),
            0x90..=0x97 if self.in_opcode() != 0 => Effect::ChangeTwo(0, self.in_opcode()),
            _ => self.one_byte_change(),
        }
    }

    /// Instructions that change one register, to what cannot be told.
    fn one_byte_change(&self) -> Effect {
        let group = self.instruction.modrm_reg();
        let changed = match self.instruction.opcode {
            0x03 | 0x0b | 0x13 | 0x1b | 0x23 | 0x2b | 0x33 | 0x63 | 0x69 | 0x6b | 0x8b => {
                Some(self.register())
            }
            0x01 | 0x09 | 0x11 | 0x19 | 0x21 | 0x29 | 0x31 | 0x89 | 0xc1 | 0xc7 | 0xd1 | 0xd3 => {
                self.other()
            }
            0xf7 if matches!(group, 2 | 3) => self.other(),
            0xff if group < 2 => self.other(),
            _ => None,
        };
        changed.map_or(Effect::Nothing, Effect::Change)
    }

    fn two_bytes(&self) -> Effect {
        match self.instruction.opcode {
            0x40..=0x4f | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf => Effect::Change(self.register()),
            0xa0 | 0xa8 => Effect::Push(None),
            0xa1 | 0xa9 => Effect::Pop(None),
            0xc8..=0xcf => Effect::Change(self.in_opcode()),
            _ => Effect::Nothing,
        }
    }

    fn move_wide(&self) -> Effect {
        let is_store = self.instruction.opcode == 0x89;
        let register = self.register();
        match (self.other(), self.address()) {
            (Some(other), _) => {
                let (to, from) = if is_store {
                    (other, register)
                } else {
                    (register, other)
                };
                Effect::Set {
                    register: to,
                    from,
                    plus: 0,
                }
            }
            (None, Some((base, offset))) if is_store => Effect::Store {
                register,
                base,
                offset,
            },
            (None, Some((base, offset))) => Effect::Load {
                register,
                base,
                offset,
            },
            (None, None) if is_store => Effect::Nothing,
            (None, None) => Effect::Change(register),
        }
    }

    fn load_address(&self) -> Effect {
        match self.address() {
            Some((from, plus)) if self.is_wide() => Effect::Set {
                register: self.register(),
                from,
                plus,
            },
            _ => Effect::Change(self.register()),
        }
    }

    /// `add`, `sub`, `and` and their kin with an immediate.
    fn arithmetic_with_immediate(&self) -> Effect {
        let (Some(register), Some(immediate)) = (self.other(), self.immediate()) else {
            return Effect::Nothing;
        };
        let plus = match self.instruction.modrm_reg() {
            7 => return Effect::Nothing,
            0 if self.is_wide() => immediate,
            5 if self.is_wide() => immediate.wrapping_neg(),
            4 if self.is_wide() && immediate < 0 => return Effect::Align(register),
            _ => return Effect::Change(register),
        };
        Effect::Set {
            register,
            from: register,
            plus,
        }
    }
}

/// The registers that `leave` uses: the stack pointer becomes the frame pointer, which is popped.
pub(super) const LEAVE: (Effect, Effect) = (
    Effect::Set {
        register: RSP,
        from: RBP,
        plus: 0,
    },
    Effect::Pop(Some(RBP)),
);
