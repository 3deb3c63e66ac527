//! From an operand and the words of a record to accesses.

use crate::access::{Access, AccessFlags, AccessKind};
use crate::paths::{AccessingCode, Instruction};
use crate::superblock::{AddressSource, Extent, Mask, Operand, Slot};

/// A record has fewer words than its code needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissingWord;

/// Appends the accesses of one execution of an instruction.
#[inline]
pub(crate) fn expand_instruction(
    code: &AccessingCode,
    instruction: &Instruction,
    words: &[u64],
    time: u64,
    accesses: &mut Vec<Access>,
) -> Result<(), MissingWord> {
    let mut flags = instruction.flags().with(AccessFlags::FIRST);
    if let Some(slot) = instruction.cas_success
        && word(words, slot)? == 0
    {
        flags = flags.with(AccessFlags::FAILED_CAS);
    }
    let pc = instruction.pc;
    let first_access = accesses.len();
    for operand in code.operands(instruction) {
        let address = address(operand, words)?;
        let kind = operand.kind;
        if operand.extent == Extent::Plain {
            accesses.push(Access {
                time,
                pc,
                address,
                size: operand.size,
                kind,
                flags,
            });
            flags.0 &= !AccessFlags::FIRST.0;
        } else {
            let mut pieces = Pieces {
                time,
                pc,
                kind,
                flags,
                accesses,
            };
            expand_extent(operand, address, words, &mut pieces)?;
            flags = pieces.flags;
        }
    }
    if instruction.calls_or_returns
        && let Some(last) = accesses[first_access..].last_mut()
    {
        last.flags = last.flags.with(AccessFlags::RETURN_ADDRESS);
    }
    Ok(())
}

/// How many accesses one execution of an operand makes.
#[inline]
pub(crate) fn count_accesses(operand: &Operand, words: &[u64]) -> Result<usize, MissingWord> {
    address(operand, words)?;
    let some = operand.size != 0;
    let elements = |mask: Slot, count: u8| Ok(word(words, mask)? & low_bits(count));
    Ok(match operand.extent {
        Extent::Plain => 1,
        Extent::Repeat {
            before,
            after,
            pointer_after,
        } => {
            word(words, pointer_after)?;
            usize::from(word(words, before)? != word(words, after)? && some)
        }
        Extent::Indexed {
            index,
            index_size,
            count,
            mask,
            ..
        } => {
            let (set, last) = match mask {
                Mask::All => (usize::from(count), count.checked_sub(1)),
                Mask::Bits(mask) => {
                    let set = elements(mask, count)?;
                    let last = set.checked_ilog2().map(|last| last as u8);
                    (set.count_ones() as usize, last)
                }
            };
            if let Some(last) = last {
                element_of(words, index, index_size, last)?;
            }
            if some { set } else { 0 }
        }
        Extent::Masked {
            count,
            mask: Mask::All,
        } => usize::from(count != 0 && some),
        Extent::Masked {
            count,
            mask: Mask::Bits(mask),
        } => {
            let set = elements(mask, count)?;
            let starts = set & !(set << 1);
            if some {
                starts.count_ones() as usize
            } else {
                0
            }
        }
        Extent::Compressed { count, mask } | Extent::AnyOf { count, mask } => {
            usize::from(elements(mask, count)? != 0 && some)
        }
        Extent::Rows { stride, form } => {
            let (_, form) = (word(words, stride)?, word(words, form)?);
            let rows = (form >> 16 & 0xff).saturating_sub(form >> 24 & 0xff);
            if form & 0xffff != 0 { rows as usize } else { 0 }
        }
    })
}

impl Operand {
    /// The address in a record with these words. `None` if words are missing.
    #[must_use]
    pub fn address_in(&self, words: &[u64]) -> Option<u64> {
        address(self, words).ok()
    }

    /// The accesses that it makes in a record with these words, in order: the address and the
    /// bytes of each. `None` if words are missing.
    #[must_use]
    pub fn ranges(&self, words: &[u64]) -> Option<Vec<(u64, u32)>> {
        let mut accesses = Vec::new();
        let mut pieces = Pieces {
            time: 0,
            pc: 0,
            kind: self.kind,
            flags: AccessFlags::default(),
            accesses: &mut accesses,
        };
        let address = address(self, words).ok()?;
        expand_extent(self, address, words, &mut pieces).ok()?;
        let ranges = accesses.iter();
        Some(ranges.map(|access| (access.address, access.size)).collect())
    }
}

#[inline]
fn word(words: &[u64], slot: Slot) -> Result<u64, MissingWord> {
    words.get(usize::from(slot)).copied().ok_or(MissingWord)
}

#[inline]
fn address(operand: &Operand, words: &[u64]) -> Result<u64, MissingWord> {
    address_from(operand.address, words)
}

/// The address from this source in a record with these words.
#[inline]
pub(crate) fn address_from(source: AddressSource, words: &[u64]) -> Result<u64, MissingWord> {
    match source {
        AddressSource::Absolute(address) => Ok(address),
        AddressSource::Word { slot, add } => Ok(word(words, slot)?.wrapping_add_signed(add)),
    }
}

/// Where the accesses of one operand go.
struct Pieces<'a> {
    time: u64,
    pc: u64,
    kind: AccessKind,
    flags: AccessFlags,
    accesses: &'a mut Vec<Access>,
}

impl Pieces<'_> {
    /// Appends an access, unless it has no bytes. Sizes that do not fit are cut.
    fn push(&mut self, address: u64, size: u64) {
        if size == 0 {
            return;
        }
        let Pieces {
            time,
            pc,
            kind,
            flags,
            ..
        } = *self;
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.accesses.push(Access {
            time,
            pc,
            address,
            size,
            kind,
            flags,
        });
        self.flags.0 &= !AccessFlags::FIRST.0;
    }
}

#[cold]
fn expand_extent(
    operand: &Operand,
    address: u64,
    words: &[u64],
    pieces: &mut Pieces<'_>,
) -> Result<(), MissingWord> {
    let size = u64::from(operand.size);
    match operand.extent {
        Extent::Plain => pieces.push(address, size),
        Extent::Repeat {
            before,
            after,
            pointer_after,
        } => {
            let bytes = word(words, before)?
                .abs_diff(word(words, after)?)
                .saturating_mul(size);
            let downwards = word(words, pointer_after)? < address;
            let below = if downwards {
                bytes.saturating_sub(size)
            } else {
                0
            };
            pieces.push(address.wrapping_sub(below), bytes);
        }
        Extent::Indexed {
            index,
            index_size,
            scale,
            count,
            mask,
        } => {
            for element in 0..count {
                if is_set(mask, element, words)? {
                    let offset = element_of(words, index, index_size, element)?;
                    let offset = offset.wrapping_mul(u64::from(scale));
                    pieces.push(address.wrapping_add(offset), size);
                }
            }
        }
        Extent::Masked { count, mask } => {
            let mut run = 0;
            for element in 0..count {
                if is_set(mask, element, words)? {
                    run += 1;
                } else {
                    pieces.push(
                        address.wrapping_add((u64::from(element) - run) * size),
                        run * size,
                    );
                    run = 0;
                }
            }
            pieces.push(
                address.wrapping_add((u64::from(count) - run) * size),
                run * size,
            );
        }
        Extent::Compressed { count, mask } => {
            let bits = word(words, mask)? & low_bits(count);
            pieces.push(address, u64::from(bits.count_ones()) * size);
        }
        Extent::AnyOf { count, mask } => {
            if word(words, mask)? & low_bits(count) != 0 {
                pieces.push(address, size);
            }
        }
        Extent::Rows { stride, form } => {
            let (stride, form) = (word(words, stride)?, word(words, form)?);
            for row in (form >> 24 & 0xff)..(form >> 16 & 0xff) {
                let offset = stride.wrapping_mul(row);
                pieces.push(address.wrapping_add(offset), form & 0xffff);
            }
        }
    }
    Ok(())
}

/// The lowest `count` bits.
fn low_bits(count: u8) -> u64 {
    1_u64
        .checked_shl(u32::from(count))
        .map_or(u64::MAX, |bit| bit - 1)
}

fn is_set(mask: Mask, element: u8, words: &[u64]) -> Result<bool, MissingWord> {
    Ok(match mask {
        Mask::All => true,
        Mask::Bits(slot) => {
            let bits = word(words, slot)?.checked_shr(u32::from(element));
            bits.unwrap_or(0) & 1 == 1
        }
    })
}

/// An element of a register whose words start at `first`, sign-extended. Elements have 4 or
/// 8 bytes.
fn element_of(words: &[u64], first: Slot, size: u8, element: u8) -> Result<u64, MissingWord> {
    let (first, element) = (usize::from(first), usize::from(element));
    let at = |index: usize| words.get(first + index).copied().ok_or(MissingWord);
    Ok(match size {
        4 => (at(element / 2)? >> (element % 2 * 32)) as u32 as i32 as u64,
        _ => at(element)?,
    })
}

#[cfg(test)]
mod tests;
