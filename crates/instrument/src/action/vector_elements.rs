//! Operands whose accesses inserted code finds out itself: gathers and scatters, and adjacent elements
//! that a mask chooses.

use iced_x86::Register;
use unspool_instructions::operands::{ElementMask, MemoryOperand, Shape};

use super::{Argument, EachAccess};

/// The most registers that entries may be made of, so that enough are free to find addresses with.
const MOST_REGISTERS: u32 = 3;

/// An instruction's only operand in memory, of which each element is accessed that a mask chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VectorElements {
    /// The operand without what its shape adds.
    plain: MemoryOperand,
    /// How many elements.
    pub(crate) count: u8,
    /// A bit for each of them.
    pub(crate) mask: ElementMask,
    /// Which of them are accessed, given the mask.
    pub(crate) accessed: Accessed,
    /// The indexes, if it has any. Else the elements are adjacent.
    pub(crate) indexes: Option<Indexes>,
}

/// Which elements are accessed, given a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accessed {
    /// Those whose bits are set.
    Chosen,
    /// The first, if any bit is set.
    FirstIfAny,
    /// As many from the first on as bits are set.
    AsMany,
}

/// The indexes of the elements of a gather or scatter.
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
        let (count, mask, accessed, indexes) = match operand.shape {
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
                (count, mask, Accessed::Chosen, Some(indexes))
            }
            Shape::Masked { count, mask } => (count, mask, Accessed::Chosen, None),
            Shape::AnyOf { count, mask } => (count, mask, Accessed::FirstIfAny, None),
            Shape::Compressed { count, mask } => {
                (count, ElementMask::Bits(mask), Accessed::AsMany, None)
            }
            _ => return None,
        };
        let is_mm = matches!(mask, ElementMask::Vector { register, .. } if register.is_mm());
        // What no instruction multiplies by. The first element is at the address whatever its size.
        let is_odd = accessed != Accessed::FirstIfAny && !matches!(operand.size, 1 | 2 | 4 | 8);
        // Addresses of 32 bits are cut where an element's distance has been added.
        if is_mm || is_odd || operand.address_size_32 {
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
            accessed,
            indexes,
        };
        (registers.count_ones() <= MOST_REGISTERS).then_some(elements)
    }

    /// The operand without what its shape adds.
    pub(crate) fn plain(&self) -> MemoryOperand {
        self.plain
    }

    /// By what the number or the index of an element is multiplied in its address.
    pub(crate) fn scale(&self) -> u8 {
        match (self.accessed, self.indexes) {
            (Accessed::FirstIfAny, _) => 1,
            (_, Some(indexes)) => indexes.scale,
            (_, None) => self.plain.size as u8,
        }
    }
}
