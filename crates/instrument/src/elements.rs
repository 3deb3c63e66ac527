//! The accesses that an instruction is about to make, of whatever shape its operands are: strings,
//! masks, gathers, tiles.

use std::ops::Range;

use iced_x86::Register as Named;
use unspool_instructions::operands::{ElementMask, MemoryOperand, Shape};

use super::Context;
use super::kept::Kept;

mod states;

/// Keeps an operand for as long as code may run that refers to it.
#[must_use]
pub fn keep_operand(operand: MemoryOperand) -> &'static MemoryOperand {
    static KEPT: Kept<MemoryOperand> = Kept::new();
    KEPT.keep(operand)
}

const DIRECTION: u64 = 1 << 10;

/// A repeated string instruction's way through an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// The address of the first round's element in its segment.
    offset: u64,
    /// What a round adds to it.
    step: u64,
    /// Where the segment starts.
    segment: u64,
    /// Whether addresses in the segment have 32 bits.
    narrow: bool,
}

impl Rounds {
    /// Whether the count has 32 bits too.
    pub(crate) fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// The address of a round's element.
    pub(crate) fn address(&self, round: u64) -> u64 {
        let offset = self.offset.wrapping_add(self.step.wrapping_mul(round));
        cut(offset, self.narrow).wrapping_add(self.segment)
    }

    /// The addresses of the elements of these rounds, one behind the other.
    pub(crate) fn addresses(&self, rounds: Range<u64>) -> impl Iterator<Item = u64> {
        let Rounds {
            offset,
            step,
            segment,
            narrow,
        } = *self;
        let mut next = offset.wrapping_add(step.wrapping_mul(rounds.start));
        rounds.map(move |_| {
            let here = cut(next, narrow).wrapping_add(segment);
            next = next.wrapping_add(step);
            here
        })
    }
}

/// An operand of an instruction before which the calling thread is, in a call with its whole state.
#[derive(Debug)]
pub struct Elements<'a> {
    operand: &'a MemoryOperand,
    context: &'a Context,
}

impl<'a> Elements<'a> {
    /// Those of an operand.
    #[must_use]
    pub fn new(operand: &'a MemoryOperand, context: &'a Context) -> Elements<'a> {
        Elements { operand, context }
    }

    /// Calls a function with the address of each and its bytes, in their order. Those of a
    /// repeated string instruction come in one piece.
    pub fn each(&self, mut visit: impl FnMut(u64, u64)) {
        let operand = self.operand;
        let (start, size) = (self.offset(), u64::from(operand.size));
        let at = |offset: u64| self.in_segment(start.wrapping_add(offset));
        match operand.shape {
            Shape::Plain => visit(at(0), size),
            Shape::AlignedDown => visit(at(0) & !(size - 1), size),
            Shape::BitString { number } => {
                let bits = 8 * operand.size;
                let bit = sign_extend(self.register(number), bits);
                let word = bit.div_euclid(i64::from(bits)) as u64;
                visit(at(word.wrapping_mul(size)), size);
            }
            Shape::Repeat { count, .. } => {
                let all = self.register(count).wrapping_mul(size);
                let first = match self.goes_down() {
                    false => 0,
                    true => size.wrapping_sub(all),
                };
                if all != 0 {
                    visit(at(first), all);
                }
            }
            Shape::Indexed {
                index,
                index_size,
                count,
                mask,
            } => self.chosen(mask, count, |element| {
                let index = self.element(index, usize::from(index_size), element);
                let index = sign_extend(index, 8 * u32::from(index_size)) as u64;
                visit(at(index.wrapping_mul(u64::from(operand.scale))), size);
            }),
            Shape::Masked { count, mask } => self.chosen(mask, count, |element| {
                visit(at(element as u64 * size), size);
            }),
            Shape::AnyOf { count, mask } => {
                if self.mask(mask, count) != 0 {
                    visit(at(0), size);
                }
            }
            Shape::Compressed { count, mask } => {
                let elements = self.mask(ElementMask::Bits(mask), count).count_ones();
                (0..u64::from(elements)).for_each(|element| visit(at(element * size), size));
            }
            Shape::Tile { tile, stride } => {
                let step = match stride {
                    Named::None => 0,
                    register => self.register(register).wrapping_mul(operand.scale.into()),
                };
                let (rows, bytes) = states::tile_configuration().rows(tile.number());
                rows.for_each(|row| visit(at(step.wrapping_mul(row)), bytes));
            }
        }
    }

    /// How many rounds a repeated string instruction does at most, and its way; `None` for others.
    pub(crate) fn rounds(&self) -> Option<(u64, Rounds)> {
        let Shape::Repeat { count, .. } = self.operand.shape else {
            return None;
        };
        let size = u64::from(self.operand.size);
        let step = match self.goes_down() {
            false => size,
            true => size.wrapping_neg(),
        };
        let rounds = Rounds {
            offset: self.offset(),
            step,
            segment: self.segment(),
            narrow: self.operand.address_size_32,
        };
        Some((self.register(count), rounds))
    }

    fn goes_down(&self) -> bool {
        self.context.flags() & DIRECTION != 0
    }

    /// Where the operand is in its segment, without what its shape adds.
    fn offset(&self) -> u64 {
        let operand = self.operand;
        let index = match operand.shape {
            // The factor is that of the elements' indexes, or of the rows.
            Shape::Indexed { .. } | Shape::Tile { .. } => 0,
            _ if operand.index == Named::None => 0,
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

    fn segment(&self) -> u64 {
        let segment = self.operand.segment;
        segment.map_or(0, |segment| self.context.segment_base(segment))
    }

    fn in_segment(&self, offset: u64) -> u64 {
        cut(offset, self.operand.address_size_32).wrapping_add(self.segment())
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
    fn chosen(&self, mask: ElementMask, count: u8, mut visit: impl FnMut(usize)) {
        let chosen = self.mask(mask, count);
        (0..usize::from(count))
            .filter(|number| chosen >> number & 1 != 0)
            .for_each(&mut visit);
    }

    /// A bit for each of the first `count` elements.
    fn mask(&self, mask: ElementMask, count: u8) -> u64 {
        let bits = match mask {
            ElementMask::All => u64::MAX,
            ElementMask::Bits(register) => self.context.mask(register.number()),
            ElementMask::Vector { register, size } if register.is_mm() => {
                let value = states::mmx_register(register.number());
                signs(&value.to_le_bytes(), size.into(), count)
            }
            ElementMask::Vector { register, size } => {
                signs(&self.context.vector(register.number()), size.into(), count)
            }
        };
        bits & u64::MAX >> (64 - count)
    }
}

/// The highest bit of each element of a vector.
fn signs(vector: &[u8], size: usize, count: u8) -> u64 {
    let signs = (0..usize::from(count)).map(|number| {
        let highest = vector[(number + 1) * size - 1];
        u64::from(highest >> 7) << number
    });
    signs.sum()
}

fn cut(offset: u64, narrow: bool) -> u64 {
    match narrow {
        true => offset & 0xffff_ffff,
        false => offset,
    }
}

fn sign_extend(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}
