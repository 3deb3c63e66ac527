//! Operands whose accesses inserted code finds out itself: gathers, and moves of those elements that a
//! mask in a vector register chooses.

use iced_x86::Register;
use unspool_instructions::operands::{ElementMask, MemoryOperand, Shape};

use super::{Argument, EachAccess};

/// The most elements: a vector has no more that may be accessed one by one.
const MOST_ELEMENTS: u8 = 8;
/// The most registers that entries may be made of, so that one is free to find addresses with.
const MOST_REGISTERS: u32 = 4;

/// An instruction's only operand in memory, of which each element is accessed that a mask chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VectorElements {
    /// The operand without what its shape adds.
    plain: MemoryOperand,
    /// How many elements.
    pub(crate) count: u8,
    /// The mask: the register, and the bytes of one of its elements, whose highest bit decides. There
    /// is none if all elements are accessed.
    pub(crate) mask: Option<(Register, u8)>,
    /// The indexes, if it has any. Else the elements are adjacent.
    pub(crate) indexes: Option<Indexes>,
}

/// The indexes of a gather's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Indexes {
    /// The vector register that holds them.
    pub(crate) register: Register,
    /// Bytes of one, which is signed: 4 or 8.
    pub(crate) size: u8,
    /// What each is multiplied by.
    scale: u8,
}

impl VectorElements {
    /// Those of an instruction, if inserted code can find them out.
    pub(crate) fn of(each: &EachAccess) -> Option<VectorElements> {
        let [(operand, fields)] = each.operands.as_slice() else {
            return None;
        };
        let (count, mask, indexes) = match operand.shape {
            Shape::Indexed {
                index,
                index_size,
                count,
                mask,
            } => {
                let indexes = Indexes {
                    register: index,
                    size: index_size,
                    scale: operand.scale,
                };
                (count, mask, Some(indexes))
            }
            Shape::Masked { count, mask } => (count, mask, None),
            _ => return None,
        };
        let mask = match mask {
            ElementMask::All => None,
            ElementMask::Vector { register, size } if !register.is_mm() => Some((register, size)),
            ElementMask::Vector { .. } | ElementMask::Bits(_) => return None,
        };
        let is_far = operand.segment.is_some() || operand.address_size_32;
        if is_far || count > MOST_ELEMENTS {
            return None;
        }
        let mut registers = 0_u16;
        for field in fields {
            match field.value {
                Argument::Register(number) => registers |= 1 << number,
                Argument::Constant(_)
                | Argument::ThreadNumber
                | Argument::ElementAddress
                | Argument::ElementSize => {}
                _ => return None,
            }
        }
        let mut plain = MemoryOperand {
            shape: Shape::Plain,
            ..*operand
        };
        if indexes.is_some() {
            (plain.index, plain.scale) = (Register::None, 1);
        }
        let elements = VectorElements {
            plain,
            count,
            mask,
            indexes,
        };
        // Where that is no displacement of four bytes, no instruction can name it.
        let last = elements.adjacent(count).displacement;
        let is_near = plain.base == Register::None || i32::try_from(last).is_ok();
        (is_near && registers.count_ones() <= MOST_REGISTERS).then_some(elements)
    }

    /// The operand without what its shape adds.
    pub(crate) fn plain(&self) -> MemoryOperand {
        self.plain
    }

    /// An element of those that are adjacent.
    pub(crate) fn adjacent(&self, number: u8) -> MemoryOperand {
        let distance = i64::from(self.plain.size) * i64::from(number);
        MemoryOperand {
            displacement: self.plain.displacement.wrapping_add(distance),
            ..self.plain
        }
    }

    /// The element whose index is in a general register.
    pub(crate) fn indexed(&self, indexes: Indexes, register: Register) -> MemoryOperand {
        MemoryOperand {
            index: register,
            scale: indexes.scale,
            ..self.plain
        }
    }
}
