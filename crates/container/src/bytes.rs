//! Numbers and strings as bytes, and back: what the file's tables are made of.
//!
//! Numbers of unknown magnitude are little-endian base-128 varints; signed ones are
//! zigzag-mapped first, so that small magnitudes stay short.

/// Maps small magnitudes of either sign to small numbers.
#[inline(always)]
#[must_use]
pub fn zigzag(value: u64) -> u64 {
    (value << 1) ^ ((value as i64 >> 63) as u64)
}

/// The inverse of [`zigzag`].
#[inline]
#[must_use]
pub fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

/// Appends a varint.
pub fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a length and that many bytes.
pub fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

/// The bytes ended before the value did, or the value is none that can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Reads numbers and strings from bytes that may be damaged.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        ByteReader { bytes }
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// One byte.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.bytes.split_first().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(first)
    }

    /// Two bytes, little-endian.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(u16::from_le_bytes(*taken))
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    /// A varint.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A varint that fits a narrower type.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn number<Narrow: TryFrom<u64>>(&mut self) -> Result<Narrow, Malformed> {
        Narrow::try_from(self.varint()?).map_err(|_| Malformed)
    }

    /// A length and that many bytes.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        self.take(length)
    }

    /// A length and that many bytes of UTF-8; bytes that are none are replaced.
    ///
    /// # Errors
    /// If the bytes end before, or are none of these.
    pub fn text(&mut self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values: Vec<u64>, text: String) {
            let mut bytes = Vec::new();
            for &value in &values {
                put_varint(&mut bytes, value);
                put_varint(&mut bytes, zigzag(value));
            }
            put_bytes(&mut bytes, text.as_bytes());
            let mut reader = ByteReader::new(&bytes);
            for &value in &values {
                prop_assert_eq!(reader.varint(), Ok(value));
                prop_assert_eq!(reader.varint().map(unzigzag), Ok(value));
            }
            prop_assert_eq!(reader.text(), Ok(text));
            prop_assert_eq!(reader.remaining(), 0);
            prop_assert_eq!(reader.byte(), Err(Malformed));
        }
    }

    #[test]
    fn varints_longer_than_64_bits_are_refused() {
        for bytes in [
            &[0xff; 9][..],
            &[0xff; 10][..],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(ByteReader::new(bytes).varint(), Err(Malformed));
        }
    }
}
