//! All accesses of an operand, of whatever shape: strings, masks, gathers.

use iced_x86::Register as Named;
use unspool_instructions::operands::{ElementMask, MemoryOperand, Shape};
use unspool_instrument::{self as instrument, Context};

use crate::argument::{Address, Argument};
use crate::moment::word_in_memory;

/// The accesses that an instruction will make through an operand. See [`accesses`].
#[derive(Debug, Clone, Copy)]
pub struct AllAccesses(&'static MemoryOperand);

/// The accesses that an instruction will make through one of its
/// [`memory_operands`](instrument::Instruction::memory_operands), for calls before it: each
/// element of gathers and scatters, and of vectors those that masks let through. It costs as much
/// as a [`FullContext`](crate::FullContext); where [`effective_address`](crate::effective_address)
/// and [`access_size`](crate::access_size) say the same, they cost next to nothing.
///
/// `None` for tiles, and for masks in MMX registers.
#[must_use]
pub fn accesses(operand: &MemoryOperand) -> Option<AllAccesses> {
    let known = match operand.shape {
        Shape::Tile { .. } => false,
        Shape::Masked {
            mask: ElementMask::Vector { register, .. },
            ..
        } => !register.is_mm(),
        _ => true,
    };
    // It is needed for as long as the code may run.
    known.then(|| AllAccesses(Box::leak(Box::new(*operand))))
}

impl Argument for AllAccesses {
    type Value = Accesses;
    const IS_WORD: bool = false;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        instrument::Argument::Context(std::ptr::from_ref(self.0) as u64)
    }

    fn value(_: u64, number: usize) -> Accesses {
        // SAFETY: inserted code has written the address of an operand there that is kept for good.
        let operand = unsafe { &*(word_in_memory(number) as *const MemoryOperand) };
        Accesses {
            operand,
            context: Context::current(),
        }
    }
}

/// Accesses that are about to be made.
#[derive(Debug)]
pub struct Accesses {
    operand: &'static MemoryOperand,
    context: Context,
}

impl Accesses {
    /// Address and size in bytes of each, in the order of the elements. Adjacent elements of a
    /// string are one.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(Address, u64)> {
        let operand = self.operand;
        let (start, size) = (self.address(), u64::from(operand.size));
        let at = |offset: u64| Address(self.cut(start.wrapping_add(offset)));
        match operand.shape {
            Shape::Plain => vec![(at(0), size)],
            Shape::AlignedDown => vec![(Address(at(0).0 & !(size - 1)), size)],
            Shape::BitString { number } => {
                let bits = 8 * operand.size;
                let bit = sign_extend(self.register(number), bits);
                vec![(
                    at((bit.div_euclid(i64::from(bits)) as u64).wrapping_mul(size)),
                    size,
                )]
            }
            Shape::Repeat { count, .. } => {
                const DIRECTION: u64 = 1 << 10;
                let all = self.register(count).wrapping_mul(size);
                let first = match self.context.flags() & DIRECTION {
                    0 => 0,
                    _ => size.wrapping_sub(all),
                };
                if all == 0 {
                    vec![]
                } else {
                    vec![(at(first), all)]
                }
            }
            Shape::Indexed {
                index,
                index_size,
                count,
                mask,
            } => self
                .elements(mask, count)
                .map(|element| {
                    let index = self.element(index, usize::from(index_size), element);
                    let index = sign_extend(index, 8 * u32::from(index_size)) as u64;
                    (at(index.wrapping_mul(u64::from(operand.scale))), size)
                })
                .collect(),
            Shape::Masked { count, mask } => self
                .elements(mask, count)
                .map(|element| (at(element as u64 * size), size))
                .collect(),
            Shape::AnyOf { count, mask } => {
                let first = self.elements(mask, count).next();
                first.map(|_| (at(0), size)).into_iter().collect()
            }
            Shape::Compressed { count, mask } => {
                let elements = self.elements(ElementMask::Bits(mask), count).count() as u64;
                (0..elements)
                    .map(|element| (at(element * size), size))
                    .collect()
            }
            Shape::Tile { .. } => unreachable!("`accesses` has refused it"),
        }
    }

    /// The address of the operand without what its shape adds.
    fn address(&self) -> u64 {
        let operand = self.operand;
        let index = match operand.shape {
            // The factor is that of the elements' indexes.
            Shape::Indexed { .. } => 0,
            _ if operand.index == Named::None || operand.index.is_vector_register() => 0,
            _ => self
                .register(operand.index)
                .wrapping_mul(u64::from(operand.scale)),
        };
        let base = match operand.base {
            Named::None => 0,
            base => self.register(base),
        };
        base.wrapping_add(index)
            .wrapping_add(operand.displacement as u64)
    }

    /// An offset in a segment as an address.
    fn cut(&self, offset: u64) -> u64 {
        let offset = match self.operand.address_size_32 {
            true => offset & 0xffff_ffff,
            false => offset,
        };
        match self.operand.segment {
            Some(_) => offset.wrapping_add(self.context.fs_base()),
            None => offset,
        }
    }

    /// A general register, or its lower part.
    fn register(&self, register: Named) -> u64 {
        let whole = self
            .context
            .register(register.full_register().number() as u8);
        match register.size() {
            1 => whole & 0xff,
            2 => whole & 0xffff,
            4 => whole & 0xffff_ffff,
            _ => whole,
        }
    }

    /// An element of a vector register.
    fn element(&self, register: Named, size: usize, number: usize) -> u64 {
        let vector = self.context.vector(register.number());
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&vector[number * size..(number + 1) * size]);
        u64::from_le_bytes(bytes)
    }

    /// The elements that a mask lets through.
    fn elements(&self, mask: ElementMask, count: u8) -> impl Iterator<Item = usize> + use<> {
        let chosen = match mask {
            ElementMask::All => u64::MAX,
            ElementMask::Bits(register) => self.context.mask(register.number()),
            ElementMask::Vector { register, size } => self.signs(register, size.into(), count),
        };
        (0..usize::from(count)).filter(move |number| chosen >> number & 1 != 0)
    }

    /// The highest bit of each element of a vector register.
    fn signs(&self, register: Named, size: usize, count: u8) -> u64 {
        let vector = self.context.vector(register.number());
        let signs = (0..usize::from(count)).map(|number| {
            let highest = vector[(number + 1) * size - 1];
            u64::from(highest >> 7) << number
        });
        signs.sum()
    }
}

fn sign_extend(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}
