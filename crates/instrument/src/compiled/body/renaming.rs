//! The same code with other general registers.

use iced_x86::{Code, Encoder, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use super::BodyInstruction;

/// Which register stands for which, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Renaming([u8; 16]);

/// General registers that code uses, as masks. The stack pointer is not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BodyRegisters {
    /// Those that it reads or writes.
    pub(crate) used: u16,
    /// Those that it writes.
    pub(crate) written: u16,
    /// Those for which no other can stand: an instruction uses them without naming them, or can name
    /// no other.
    pub(crate) fixed: u16,
}

impl Default for Renaming {
    fn default() -> Renaming {
        Renaming(std::array::from_fn(|number| number as u8))
    }
}

impl Renaming {
    /// Has another register stand for one.
    pub(crate) fn set(&mut self, register: u8, by: u8) {
        self.0[usize::from(register)] = by;
    }

    /// Whether every register stands for itself.
    pub(crate) fn is_none(&self) -> bool {
        *self == Renaming::default()
    }

    /// What stands for a register.
    pub(crate) fn get(&self, register: u8) -> u8 {
        self.0[usize::from(register)]
    }

    /// An instruction with what stands for its registers; `None` if it can name them only as they
    /// are.
    pub(crate) fn apply(&self, instruction: &Instruction) -> Option<Vec<u8>> {
        let mut renamed = *instruction;
        for number in 0..renamed.op_count() {
            if renamed.op_kind(number) == OpKind::Register {
                let register = self.rename(renamed.op_register(number))?;
                renamed.set_op_register(number, register);
            }
        }
        renamed.set_memory_base(self.rename(renamed.memory_base())?);
        renamed.set_memory_index(self.rename(renamed.memory_index())?);
        if renamed.op0_register() != instruction.op0_register()
            && let Some(code) = without_accumulator(renamed.code())
        {
            renamed.set_code(code);
        }
        let mut encoder = Encoder::new(64);
        encoder.encode(&renamed, 0).ok()?;
        Some(encoder.take_buffer())
    }

    /// The part of another register that stands for one; `None` if the other has no such part.
    fn rename(&self, register: Register) -> Option<Register> {
        if !register.is_gpr() {
            return Some(register);
        }
        let number = register.full_register().number();
        let to = u32::from(self.0[number]);
        if to as usize == number {
            return Some(register);
        }
        match register.size() {
            8 => Some(Register::RAX + to),
            4 => Some(Register::EAX + to),
            2 => Some(Register::AX + to),
            _ if is_second_byte(register) => None,
            _ => Some(match to {
                0..4 => Register::AL + to,
                4..8 => Register::SPL + (to - 4),
                _ => Register::R8L + (to - 8),
            }),
        }
    }
}

/// Whether a register is one of ah, ch, dh and bh, beside which no prefix may be.
fn is_second_byte(register: Register) -> bool {
    (Register::AH..=Register::BH).contains(&register)
}

/// The longer form of an instruction whose first operand is always the accumulator.
fn without_accumulator(code: Code) -> Option<Code> {
    Some(match code {
        Code::Add_AL_imm8 => Code::Add_rm8_imm8,
        Code::Add_EAX_imm32 => Code::Add_rm32_imm32,
        Code::Add_RAX_imm32 => Code::Add_rm64_imm32,
        Code::And_AL_imm8 => Code::And_rm8_imm8,
        Code::And_EAX_imm32 => Code::And_rm32_imm32,
        Code::And_RAX_imm32 => Code::And_rm64_imm32,
        Code::Cmp_AL_imm8 => Code::Cmp_rm8_imm8,
        Code::Cmp_EAX_imm32 => Code::Cmp_rm32_imm32,
        Code::Cmp_RAX_imm32 => Code::Cmp_rm64_imm32,
        Code::Or_AL_imm8 => Code::Or_rm8_imm8,
        Code::Or_EAX_imm32 => Code::Or_rm32_imm32,
        Code::Or_RAX_imm32 => Code::Or_rm64_imm32,
        Code::Sub_AL_imm8 => Code::Sub_rm8_imm8,
        Code::Sub_EAX_imm32 => Code::Sub_rm32_imm32,
        Code::Sub_RAX_imm32 => Code::Sub_rm64_imm32,
        Code::Test_AL_imm8 => Code::Test_rm8_imm8,
        Code::Test_EAX_imm32 => Code::Test_rm32_imm32,
        Code::Test_RAX_imm32 => Code::Test_rm64_imm32,
        Code::Xor_AL_imm8 => Code::Xor_rm8_imm8,
        Code::Xor_EAX_imm32 => Code::Xor_rm32_imm32,
        Code::Xor_RAX_imm32 => Code::Xor_rm64_imm32,
        _ => return None,
    })
}

impl BodyRegisters {
    pub(super) fn of(steps: &[BodyInstruction]) -> BodyRegisters {
        let mut registers = BodyRegisters::default();
        let mut factory = InstructionInfoFactory::new();
        for step in steps {
            match step {
                BodyInstruction::Plain(_, instruction) => registers.add(instruction, &mut factory),
                BodyInstruction::Load(register, _) => {
                    registers.used |= 1 << register;
                    registers.written |= 1 << register;
                }
                BodyInstruction::Branch(..) | BodyInstruction::Fail(_) => {}
            }
        }
        registers
    }

    fn add(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let named = named(instruction);
        let is_short = operands(instruction).any(is_second_byte);
        for used in factory.info(instruction).used_registers() {
            let full = used.register().full_register();
            if !used.register().is_gpr() || full == Register::RSP {
                continue;
            }
            let bit = 1 << full.number();
            self.used |= bit;
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                self.written |= bit;
            }
            let is_fixed = is_short || named & bit == 0 || !can_be_another(instruction, full);
            self.fixed |= if is_fixed { bit } else { 0 };
        }
    }
}

/// The registers among an instruction's operands.
fn operands(instruction: &Instruction) -> impl Iterator<Item = Register> + '_ {
    (0..instruction.op_count())
        .filter(|&number| instruction.op_kind(number) == OpKind::Register)
        .map(|number| instruction.op_register(number))
}

/// The general registers that an instruction names.
fn named(instruction: &Instruction) -> u16 {
    let address = [instruction.memory_base(), instruction.memory_index()];
    operands(instruction)
        .chain(address)
        .filter(|register| register.is_gpr())
        .fold(0, |mask, it| mask | 1 << it.full_register().number())
}

/// Whether another register can stand for one in an instruction.
fn can_be_another(instruction: &Instruction, register: Register) -> bool {
    let mut renaming = Renaming::default();
    let number = register.number() as u8;
    renaming.set(number, if number == 8 { 9 } else { 8 });
    renaming.apply(instruction).is_some()
}
