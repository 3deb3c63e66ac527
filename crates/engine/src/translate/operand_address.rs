//! The address of a memory operand, computed into a register.

use iced_x86::Register;
use unspool_code_cache::emit::{Address, Emitter, Gpr, gpr};
use unspool_code_cache::slots::offset;
use unspool_instructions::operands::MemoryOperand;

/// The spill slot of a sum in the making (that of indirect branches, which come later).
const SUM_SPILL: u8 = 0;
/// The spill slot of a register that helps with a sum.
const HELPER_SPILL: u8 = 5;

/// Emits the computation of an operand's address into a register that it does not use.
pub fn load_address(code: &mut Emitter, scratch: Gpr, operand: &MemoryOperand) {
    let number = |register: Register| register.full_register().number() as Gpr;
    let base = (operand.base != Register::None).then(|| number(operand.base));
    let mut index = scalar_index(operand).map(|(index, scale)| (number(index), scale));
    let displacement = operand.displacement as i32;
    if operand.index == Register::AL {
        // xlat: the index is one byte wide.
        code.bytes(&[
            0x48 | (scratch >> 3) << 2,
            0x0f,
            0xb6,
            0xc0 | (scratch & 7) << 3,
        ]);
        index = Some((scratch, 1));
    }
    if let Some(segment) = operand.segment {
        let segment_base = offset::base(segment);
        if operand.address_size_32 || index.is_some_and(|(index, _)| index == scratch) {
            code.lea_address(
                scratch,
                Address {
                    base,
                    index,
                    displacement,
                },
                operand.address_size_32,
            );
            code.store_slot(offset::spill(SUM_SPILL), scratch);
            code.load_slot(scratch, segment_base);
            add_slot(code, scratch, offset::spill(SUM_SPILL));
            return;
        }
        code.load_slot(scratch, segment_base);
        if let Some(base) = base {
            let address = Address {
                base: Some(scratch),
                index: Some((base, 1)),
                displacement,
            };
            // rsp cannot be an index, but a base.
            if base == gpr::RSP {
                let swapped = Address {
                    base: Some(base),
                    index: Some((scratch, 1)),
                    displacement,
                };
                code.lea_address(scratch, swapped, false);
            } else {
                code.lea_address(scratch, address, false);
            }
        } else {
            code.lea(scratch, scratch, displacement);
        }
        if let Some(index) = index {
            let address = Address {
                base: Some(scratch),
                index: Some(index),
                displacement: 0,
            };
            code.lea_address(scratch, address, false);
        }
        return;
    }
    if base.is_none() && index.is_none() {
        code.load_immediate(scratch, operand.displacement as u64);
        return;
    }
    if let (Some(base), None, false) = (base, index, operand.address_size_32) {
        code.lea(scratch, base, displacement);
    } else {
        code.lea_address(
            scratch,
            Address {
                base,
                index,
                displacement,
            },
            operand.address_size_32,
        );
    }
}

/// The register that an operand's address is in as it is.
pub(crate) fn bare_base(operand: &MemoryOperand) -> Option<Gpr> {
    let bare = operand.index == Register::None
        && operand.displacement == 0
        && operand.segment.is_none()
        && operand.base.is_gpr64();
    bare.then(|| operand.base.number() as Gpr)
}

/// The general register that is added to the base, if any (not the vector of a gather).
pub fn scalar_index(operand: &MemoryOperand) -> Option<(Register, u8)> {
    let vector = operand.index.is_vector_register();
    (operand.index != Register::None && !vector).then_some((operand.index, operand.scale))
}

/// Adds a slot to a register without touching the flags: `lea` with the slot's value in a
/// register that is spilled for the moment.
pub fn add_slot(code: &mut Emitter, register: Gpr, slot: i32) {
    // Borrow rdx or rbx, whichever is not the scratch register itself.
    let helper = if register == gpr::RDX {
        gpr::RBX
    } else {
        gpr::RDX
    };
    code.store_slot(offset::spill(HELPER_SPILL), helper);
    code.load_slot(helper, slot);
    let address = Address {
        base: Some(register),
        index: Some((helper, 1)),
        displacement: 0,
    };
    code.lea_address(register, address, false);
    code.load_slot(helper, offset::spill(HELPER_SPILL));
}
