//! Text of one row, made without a test for each byte: pieces of a fixed length are copied whole,
//! and as many of their bytes count as are wanted.

/// The longest row: what every column has at most, and a piece more.
const ROW_BYTES: usize = 256;

/// A row of text that is being made.
#[derive(Debug)]
pub(crate) struct RowText {
    bytes: [u8; ROW_BYTES],
    length: usize,
}

impl RowText {
    pub(crate) fn new() -> RowText {
        RowText {
            bytes: [0; ROW_BYTES],
            length: 0,
        }
    }

    /// Starts the next row.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// The row as far as it was made.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends the first bytes of a piece.
    ///
    /// # Panics
    /// If the row is too long for the piece.
    #[inline]
    pub(crate) fn put<const LENGTH: usize>(&mut self, piece: &[u8; LENGTH], used: usize) {
        self.bytes[self.length..][..LENGTH].copy_from_slice(piece);
        self.length += used.min(LENGTH);
    }

    /// Appends a piece.
    #[inline]
    pub(crate) fn put_piece<const LENGTH: usize>(&mut self, piece: &Piece<LENGTH>) {
        self.put(&piece.bytes, piece.length);
    }

    /// Appends a number as hexadecimal digits without leading zeros.
    #[inline]
    pub(crate) fn put_hexadecimal(&mut self, value: u64) {
        let digits = (16 - value.leading_zeros() as usize / 4).max(1);
        // The digits that count go to the left.
        let value = value << (64 - 4 * digits);
        self.put(&hexadecimal_digits((value >> 32) as u32), digits.min(8));
        if digits > 8 {
            self.put(&hexadecimal_digits(value as u32), digits - 8);
        }
    }

    /// Appends a number in decimal.
    #[inline]
    pub(crate) fn put_decimal(&mut self, value: u32) {
        match value {
            0..10 => self.put(&[b'0' + value as u8], 1),
            10..100 => self.put(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8], 2),
            _ => {
                let digits: Piece<20> = Piece::new(itoa::Buffer::new().format(value));
                self.put_piece(&digits);
            }
        }
    }
}

/// All eight hexadecimal digits of a number at once: each gets a byte, in which it becomes the
/// character.
#[inline]
fn hexadecimal_digits(value: u32) -> [u8; 8] {
    let mut digits = u64::from(value);
    digits = (digits | digits << 16) & 0x0000_ffff_0000_ffff;
    digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
    digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let is_letter = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let to_letter = u64::from(b'a' - b'0' - 10);
    (digits + 0x3030_3030_3030_3030 + is_letter * to_letter).to_be_bytes()
}

/// A short text that is appended often.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<const LENGTH: usize> {
    bytes: [u8; LENGTH],
    length: usize,
}

impl<const LENGTH: usize> Piece<LENGTH> {
    /// # Panics
    /// If the text is longer.
    pub(crate) fn new(text: &str) -> Self {
        let mut bytes = [0; LENGTH];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Piece {
            bytes,
            length: text.len(),
        }
    }
}

/// The decimal digits of a number that mostly grows by one.
#[derive(Debug)]
pub(crate) struct CountingText {
    value: u64,
    digits: Piece<20>,
}

impl CountingText {
    pub(crate) fn new() -> CountingText {
        CountingText {
            value: 0,
            digits: Piece::new("0"),
        }
    }

    /// The digits of a number.
    #[inline]
    pub(crate) fn of(&mut self, value: u64) -> &Piece<20> {
        if value != self.value {
            let is_next = self.value.checked_add(1) == Some(value) && self.count_on();
            if !is_next {
                self.digits = Piece::new(itoa::Buffer::new().format(value));
            }
            self.value = value;
        }
        &self.digits
    }

    /// Adds one to the digits; tells whether that was possible without another digit.
    #[inline]
    fn count_on(&mut self) -> bool {
        let Piece { bytes, length } = &mut self.digits;
        for digit in bytes[..*length].iter_mut().rev() {
            if *digit != b'9' {
                *digit += 1;
                return true;
            }
            *digit = b'0';
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(make: impl FnOnce(&mut RowText)) -> String {
        let mut row = RowText::new();
        make(&mut row);
        String::from_utf8(row.bytes().to_vec()).unwrap()
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let near_powers = (0..64).flat_map(|bit| [(1 << bit) - 1, 1_u64 << bit]);
        let patterns = [u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
        for value in near_powers.chain(patterns) {
            assert_eq!(text(|row| row.put_hexadecimal(value)), format!("{value:x}"));
            let value = value as u32;
            assert_eq!(text(|row| row.put_decimal(value)), value.to_string());
        }
        for value in 0..1000 {
            assert_eq!(text(|row| row.put_decimal(value)), value.to_string());
        }
    }

    #[test]
    fn a_count_has_the_digits_of_its_number() {
        let mut count = CountingText::new();
        let jumps = [0, 0, 7, 42, 41, u64::MAX - 1, u64::MAX, 0, 9_999_999];
        let steps = (0..1200).chain(99_990..100_020).chain(jumps).chain(jumps);
        for value in steps {
            let digits = *count.of(value);
            assert_eq!(text(|row| row.put_piece(&digits)), value.to_string());
        }
    }

    #[test]
    fn pieces_follow_one_another() {
        let joined = text(|row| {
            row.put(b"abcd", 2);
            row.put_piece(&Piece::<8>::new("-"));
            row.put_hexadecimal(0);
            row.put(b"xyz", 3);
        });
        assert_eq!(joined, "ab-0xyz");
    }
}
