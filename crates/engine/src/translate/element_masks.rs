//! What is known of the elements that gathers, scatters and masked instructions access.

use iced_x86::{Instruction as Decoded, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use unspool_instructions::operands::{ElementMask, MemoryOperand, Shape};

/// Masks that the instructions before are sure to have set to all ones need not be recorded
/// or tested: compilers set them so for each gather that is to be whole.
pub(crate) fn simplify_masks<'a>(
    before: impl DoubleEndedIterator<Item = &'a Decoded> + Clone,
    operands: &mut [MemoryOperand],
) {
    for operand in operands {
        match &mut operand.shape {
            Shape::Indexed { mask, count, .. } if is_all_ones(before.clone(), *mask, *count) => {
                *mask = ElementMask::All;
            }
            Shape::Masked { mask, count } if is_all_ones(before.clone(), *mask, *count) => {
                operand.size *= u32::from(*count);
                operand.shape = Shape::Plain;
            }
            _ => {}
        }
    }
}

fn is_all_ones<'a>(
    before: impl DoubleEndedIterator<Item = &'a Decoded>,
    mask: ElementMask,
    count: u8,
) -> bool {
    let register = match mask {
        ElementMask::All => return true,
        ElementMask::Bits(register) | ElementMask::Vector { register, .. } => register,
    };
    let mut factory = InstructionInfoFactory::new();
    let setter = before.rev().find(|instruction| {
        if restores_registers(instruction) {
            return true;
        }
        let used = factory.info(instruction);
        used.used_registers().iter().any(|used| {
            used.register().full_register() == register.full_register()
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
        })
    });
    setter.is_some_and(|instruction| sets_all(instruction, register, count))
}

/// Whether an instruction may change vector registers that it does not name.
fn restores_registers(instruction: &Decoded) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Fxrstor
            | Mnemonic::Fxrstor64
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
            | Mnemonic::Xrstors
            | Mnemonic::Xrstors64
            | Mnemonic::Vzeroall
            | Mnemonic::Vzeroupper
    )
}

/// Whether an instruction that writes to a mask register sets at least its first elements.
fn sets_all(instruction: &Decoded, register: Register, count: u8) -> bool {
    let same = |a, b| instruction.op_register(a) == instruction.op_register(b);
    let whole = instruction.op0_register().size() >= register.size();
    let bits = match instruction.mnemonic() {
        Mnemonic::Vpcmpeqb | Mnemonic::Vpcmpeqw | Mnemonic::Vpcmpeqd | Mnemonic::Vpcmpeqq => {
            let vector = instruction.op0_register().is_vector_register();
            return vector && whole && instruction.op1_register() != Register::None && same(1, 2);
        }
        Mnemonic::Kxnorb => 8,
        Mnemonic::Kxnorw => 16,
        Mnemonic::Kxnord => 32,
        Mnemonic::Kxnorq => 64,
        _ => return false,
    };
    same(1, 2) && count <= bits
}

/// How many elements are indexed.
pub(crate) fn indexed(operands: &[MemoryOperand]) -> usize {
    let count = |operand: &MemoryOperand| match operand.shape {
        Shape::Indexed { count, .. } => usize::from(count),
        _ => 0,
    };
    operands.iter().map(count).sum()
}
