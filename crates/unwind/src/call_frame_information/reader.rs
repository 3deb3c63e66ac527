//! Reads numbers and addresses from a section.

use crate::section::Section;

/// `DW_EH_PE_omit`: there is no value.
pub(super) const OMITTED: u8 = 0xff;
/// `DW_EH_PE_indirect`: the value stands where the pointer points to.
pub(super) const INDIRECT: u8 = 0x80;

/// A place in a section.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    section: Section<'a>,
    position: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// At `position` of the section, as far as its end.
    pub(super) fn new(section: Section<'a>, position: usize) -> Reader<'a> {
        let end = section.bytes.len();
        Reader {
            section,
            position: position.min(end),
            end,
        }
    }

    /// The bytes from here, as far as `length`; nothing if there are fewer.
    pub(super) fn take(&mut self, length: u64) -> Option<Reader<'a>> {
        let length = usize::try_from(length).ok()?;
        let end = self.position.checked_add(length)?;
        if end > self.end {
            return None;
        }
        let part = Reader { end, ..*self };
        self.position = end;
        Some(part)
    }

    /// Where this is in the section.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Where the bytes end.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// The address of the next byte.
    pub(super) fn address(&self) -> u64 {
        self.section.address.wrapping_add(self.position as u64)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.position >= self.end
    }

    /// Skips bytes, backwards too, as far as these bytes go.
    pub(super) fn skip(&mut self, distance: i64) -> Option<()> {
        let to = (self.position as i64).checked_add(distance)?;
        let to = usize::try_from(to).ok().filter(|to| *to <= self.end)?;
        self.position = to;
        Some(())
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.section.bytes.get(self.position..self.end)?;
        let array = *bytes.first_chunk::<N>()?;
        self.position += N;
        Some(array)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned number in LEB128. Bits beyond the 64th must be 0.
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = if shift < 64 { bits << shift } else { 0 };
            if shift >= 64 && bits != 0 || shift < 64 && shifted >> shift != bits {
                return None;
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
        }
    }

    /// A signed number in LEB128; bits beyond the 64th are not looked at.
    pub(super) fn signed(&mut self) -> Option<i64> {
        let mut value = 0_i64;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            if shift < 64 {
                value |= i64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                if shift < 64 && byte & 0x40 != 0 {
                    value |= -1 << shift;
                }
                return Some(value);
            }
        }
    }

    /// A number in the format that the lower half of an encoding gives.
    pub(super) fn formatted(&mut self, encoding: u8) -> Option<u64> {
        match encoding & 0xf {
            0x0 | 0x4 | 0xc => self.u64(),
            0x1 => self.unsigned(),
            0x2 => self.u16().map(u64::from),
            0x3 => self.u32().map(u64::from),
            0x9 => self.signed().map(|value| value as u64),
            0xa => self.u16().map(|value| value as i16 as u64),
            0xb => self.u32().map(|value| value as i32 as u64),
            _ => None,
        }
    }

    /// An address, relative to itself or to `data` as the encoding says. That of a word which has
    /// the address (`DW_EH_PE_indirect`) is given as it is.
    pub(super) fn pointer(&mut self, encoding: u8, data: u64) -> Option<u64> {
        let base = match encoding & 0x70 {
            0x00 => 0,
            0x10 => self.address(),
            0x30 => data,
            0x50 => return self.aligned(),
            _ => return None,
        };
        self.formatted(encoding)
            .map(|value| base.wrapping_add(value))
    }

    /// A word at the next address that is a multiple of its size.
    fn aligned(&mut self) -> Option<u64> {
        let padding = self.address().wrapping_neg() % 8;
        self.skip(padding as i64)?;
        self.u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(
            Section {
                address: 0x100,
                bytes,
            },
            0,
        )
    }

    #[test]
    fn numbers_of_variable_length() {
        let unsigned = |bytes: &[u8]| reader(bytes).unsigned();
        assert_eq!(unsigned(&[0x02]), Some(2));
        assert_eq!(unsigned(&[0xe5, 0x8e, 0x26]), Some(624_485));
        assert_eq!(unsigned(&[0x80, 0x80, 0x00]), Some(0));
        assert_eq!(unsigned(&[0x80]), None, "it does not end");
        let all = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(unsigned(&all), Some(u64::MAX));
        let mut beyond = all;
        beyond[9] = 0x03;
        assert_eq!(unsigned(&beyond), None, "the 65th bit");
        let signed = |bytes: &[u8]| reader(bytes).signed();
        assert_eq!(signed(&[0x7f]), Some(-1));
        assert_eq!(signed(&[0x80, 0x7f]), Some(-128));
        assert_eq!(signed(&[0x3f]), Some(63));
    }

    #[test]
    fn pointers_are_relative_to_themselves() {
        let mut reader = reader(&[0xf0, 0xff, 0xff, 0xff]);
        assert_eq!(reader.pointer(0x1b, 0), Some(0xf0));
        assert!(reader.is_empty());
    }
}
