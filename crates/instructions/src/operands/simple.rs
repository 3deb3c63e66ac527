//! A shortcut for the few dozen instructions of which most code consists: they access what
//! their operands name, in a way that the mnemonic tells. Everything else takes the long way
//! through iced's tables; a test compares the two.

use iced_x86::{Code, Instruction, Mnemonic, OpAccess, OpKind, Register};
use unspool_events::AccessKind;

use super::{MemoryOperand, Shape, segment};

/// How a simple instruction uses its first two operands, and whether it also moves rsp.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimpleUse {
    /// What it does to each operand.
    pub(super) operands: [OpAccess; 2],
    /// What it does at the top of the stack; it then reads and writes rsp.
    pub(super) stack: Option<AccessKind>,
}

/// The use that `instruction` makes of its operands; nothing if it is not simple.
pub(super) fn simple_use(instruction: &Instruction) -> Option<SimpleUse> {
    use OpAccess::{None as Unused, Read, ReadWrite, Write};
    let operands = match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => [Write, Read],
        Mnemonic::Lea => [Write, Unused],
        Mnemonic::Cmp | Mnemonic::Test => [Read, Read],
        Mnemonic::Add | Mnemonic::And | Mnemonic::Or | Mnemonic::Adc => [ReadWrite, Read],
        // With twice the same register they clear it, and do not read it.
        Mnemonic::Sub | Mnemonic::Xor | Mnemonic::Sbb
            if instruction.op0_register() != instruction.op1_register() =>
        {
            [ReadWrite, Read]
        }
        Mnemonic::Inc | Mnemonic::Dec | Mnemonic::Neg | Mnemonic::Not => [ReadWrite, Unused],
        Mnemonic::Jmp if instruction.op0_kind() == OpKind::NearBranch64 => [Unused, Unused],
        _ => return stack_use(instruction.code()).or_else(|| conditional_jump(instruction)),
    };
    Some(SimpleUse {
        operands,
        stack: None,
    })
}

/// Pushes, pops, calls and returns.
fn stack_use(code: Code) -> Option<SimpleUse> {
    use OpAccess::{None as Unused, Read, Write};
    let (operand, stack) = match code {
        Code::Push_r64 => (Read, AccessKind::Write),
        Code::Pop_r64 => (Write, AccessKind::Read),
        Code::Pushq_imm8 | Code::Pushq_imm32 | Code::Call_rel32_64 => (Unused, AccessKind::Write),
        Code::Retnq => (Unused, AccessKind::Read),
        _ => return None,
    };
    Some(SimpleUse {
        operands: [operand, Unused],
        stack: Some(stack),
    })
}

fn conditional_jump(instruction: &Instruction) -> Option<SimpleUse> {
    let is_jump =
        instruction.op0_kind() == OpKind::NearBranch64 && instruction.is_jcc_short_or_near();
    is_jump.then_some(SimpleUse {
        operands: [OpAccess::None; 2],
        stack: None,
    })
}

/// The instruction's memory operand with its address in the usual form, as a read; nothing if
/// the address is of another form.
pub(super) fn named_operand(instruction: &Instruction) -> Option<MemoryOperand> {
    let base = instruction.memory_base();
    (base.is_gpr64() || base == Register::RIP).then(|| modrm_operand(instruction))
}

/// The operand that ModRM names, as a read.
pub(super) fn modrm_operand(instruction: &Instruction) -> MemoryOperand {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let is_relative = matches!(base, Register::RIP | Register::EIP);
    let narrow = |register: Register| register.is_gpr32() || register == Register::EIP;
    MemoryOperand {
        kind: AccessKind::Read,
        size: instruction.memory_size().size() as u32,
        base: if is_relative { Register::None } else { base },
        index,
        scale: instruction.memory_index_scale() as u8,
        displacement: instruction.memory_displacement64() as i64,
        segment: segment(instruction.segment_prefix()),
        address_size_32: narrow(base)
            || narrow(index)
            || base == Register::None && instruction.memory_displ_size() == 4,
        shape: Shape::Plain,
    }
}

/// The eight bytes that a push writes or a pop reads.
pub(super) fn stack_operand(kind: AccessKind) -> MemoryOperand {
    MemoryOperand {
        kind,
        size: 8,
        base: Register::RSP,
        index: Register::None,
        scale: 1,
        displacement: if kind == AccessKind::Write { -8 } else { 0 },
        segment: None,
        address_size_32: false,
        shape: Shape::Plain,
    }
}
