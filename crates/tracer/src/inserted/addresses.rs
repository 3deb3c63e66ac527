//! Which addresses need not be recorded because they follow from words already recorded.
//!
//! Value numbering over one superblock: every register holds (value number, offset); adding
//! a constant keeps the number. Two addresses with the same number differ by a constant.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use unspool_events::superblock::Slot;

/// What a recorded word holds, up to a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Register(u32),
    Sum { base: u32, index: u32, scale: u8 },
}

/// An address relative to a value that may have been recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbolic {
    key: Key,
    offset: i64,
}

impl Symbolic {
    /// `other` minus this one, where both rest on the same value.
    #[must_use]
    pub(crate) fn distance(self, other: Symbolic) -> Option<i64> {
        (self.key == other.key).then(|| other.offset.wrapping_sub(self.offset))
    }
}

/// The number of the pseudo-register that holds the program's FS base.
pub(crate) const THREAD_POINTER: usize = 16;

/// What is known of register values at one point of a superblock.
#[derive(Debug)]
pub(crate) struct Values {
    registers: [(u32, i64); 17],
    next: u32,
    recorded: Vec<(Key, Slot, i64)>,
}

impl Default for Values {
    fn default() -> Values {
        let mut registers = [(0, 0); 17];
        for (number, register) in registers.iter_mut().enumerate() {
            register.0 = number as u32;
        }
        Values {
            registers,
            next: 17,
            recorded: Vec::new(),
        }
    }
}

impl Values {
    /// The address `base + index × scale`, without a displacement.
    #[must_use]
    pub(crate) fn address(
        &self,
        base: Option<usize>,
        index: Option<(usize, u8)>,
    ) -> Option<Symbolic> {
        let register = |number: usize| self.registers[number];
        Some(match (base, index) {
            (Some(base), None) | (None, Some((base, 1))) => {
                let (value, offset) = register(base);
                Symbolic {
                    key: Key::Register(value),
                    offset,
                }
            }
            (Some(base), Some((index, scale))) => {
                let (base, base_offset) = register(base);
                let (index, index_offset) = register(index);
                let offset = base_offset.wrapping_add(index_offset.wrapping_mul(i64::from(scale)));
                Symbolic {
                    key: Key::Sum { base, index, scale },
                    offset,
                }
            }
            _ => return None,
        })
    }

    /// The word from which an address follows, and what to add to it.
    #[must_use]
    pub(crate) fn recorded(&self, address: Symbolic) -> Option<(Slot, i64)> {
        self.recorded
            .iter()
            .find(|(key, _, _)| *key == address.key)
            .map(|&(_, slot, offset)| (slot, address.offset.wrapping_sub(offset)))
    }

    /// Notes that a word holds an address.
    pub(crate) fn record(&mut self, address: Symbolic, slot: Slot) {
        self.recorded.push((address.key, slot, address.offset));
    }

    /// Notes what an instruction does to the registers; `written` has a bit for each of them.
    pub(crate) fn execute(&mut self, instruction: &Instruction, written: u16) {
        let copied = self.constant_effect(instruction);
        for number in 0..16 {
            if written & 1 << number != 0 {
                self.registers[number] = (self.next, 0);
                self.next += 1;
            }
        }
        if let Some((number, value)) = copied {
            self.registers[number] = value;
        }
        if matches!(instruction.mnemonic(), Mnemonic::Wrfsbase) {
            self.registers[THREAD_POINTER] = (self.next, 0);
            self.next += 1;
        }
    }

    /// The register that an instruction sets to a known value plus a constant, and that value.
    fn constant_effect(&self, instruction: &Instruction) -> Option<(usize, (u32, i64))> {
        if let Some(change) = stack_change(instruction) {
            return Some((4, self.plus(4, change)));
        }
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            return None;
        }
        let target = wide_register(instruction.op0_register())?;
        match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                let source = wide_register(instruction.op1_register())?;
                Some((target, self.registers[source]))
            }
            Mnemonic::Lea => {
                let base = wide_register(instruction.memory_base())?;
                let plain = instruction.memory_index() == Register::None;
                plain.then(|| {
                    (
                        target,
                        self.plus(base, instruction.memory_displacement64() as i64),
                    )
                })
            }
            Mnemonic::Inc => Some((target, self.plus(target, 1))),
            Mnemonic::Dec => Some((target, self.plus(target, -1))),
            Mnemonic::Add | Mnemonic::Sub => {
                let value = match instruction.op1_kind() {
                    OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
                        instruction.immediate(1) as i64
                    }
                    _ => return None,
                };
                let negate = instruction.mnemonic() == Mnemonic::Sub;
                Some((
                    target,
                    self.plus(target, if negate { value.wrapping_neg() } else { value }),
                ))
            }
            _ => None,
        }
    }

    fn plus(&self, register: usize, change: i64) -> (u32, i64) {
        let (value, offset) = self.registers[register];
        (value, offset.wrapping_add(change))
    }
}

/// How far `push`, `pop` and `call` move the stack pointer.
fn stack_change(instruction: &Instruction) -> Option<i64> {
    let pops_stack_pointer =
        instruction.mnemonic() == Mnemonic::Pop && instruction.op0_register() == Register::RSP;
    let moves = matches!(
        instruction.mnemonic(),
        Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq | Mnemonic::Call
    );
    (moves && !pops_stack_pointer).then(|| i64::from(instruction.stack_pointer_increment()))
}

/// The number of a 64-bit general register.
#[must_use]
pub(crate) fn wide_register(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &mut Values, code: &[u8], written: u16) {
        let mut decoder = iced_x86::Decoder::new(64, code, 0);
        values.execute(&decoder.decode(), written);
    }

    const RAX: usize = 0;
    const RBX: usize = 3;
    const RSP: usize = 4;

    #[test]
    fn constants_added_keep_the_value() {
        let mut values = Values::default();
        values.record(values.address(Some(RBX), None).unwrap(), 5);
        run(&mut values, &[0x48, 0x83, 0xc3, 0x10], 1 << RBX); // add rbx, 16
        run(&mut values, &[0x48, 0x89, 0xd8], 1 << RAX); // mov rax, rbx
        run(&mut values, &[0x48, 0x8d, 0x40, 0xff], 1 << RAX); // lea rax, [rax - 1]
        assert_eq!(
            values.recorded(values.address(Some(RAX), None).unwrap()),
            Some((5, 15))
        );
    }

    #[test]
    fn the_stack_pointer_is_followed() {
        let mut values = Values::default();
        values.record(values.address(Some(RSP), None).unwrap(), 0);
        run(&mut values, &[0x50], 1 << RSP); // push rax
        run(&mut values, &[0x48, 0x83, 0xec, 0x20], 1 << RSP); // sub rsp, 32
        run(&mut values, &[0x58], 1 << RSP | 1 << RAX); // pop rax
        assert_eq!(
            values.recorded(values.address(Some(RSP), None).unwrap()),
            Some((0, -32))
        );
        run(&mut values, &[0x5c], 1 << RSP); // pop rsp
        assert_eq!(
            values.recorded(values.address(Some(RSP), None).unwrap()),
            None
        );
    }

    #[test]
    fn other_writes_make_a_new_value() {
        let mut values = Values::default();
        values.record(values.address(Some(RAX), Some((RBX, 8))).unwrap(), 1);
        run(&mut values, &[0x48, 0xff, 0xc3], 1 << RBX); // inc rbx
        let address = values.address(Some(RAX), Some((RBX, 8))).unwrap();
        assert_eq!(values.recorded(address), Some((1, 8)));
        run(&mut values, &[0x83, 0xc3, 0x01], 1 << RBX); // add ebx, 1: cuts to 32 bits
        let address = values.address(Some(RAX), Some((RBX, 8))).unwrap();
        assert_eq!(values.recorded(address), None);
    }
}
