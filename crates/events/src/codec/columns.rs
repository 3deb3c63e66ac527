//! The words of all records with one header: a table, packed column by column.
//!
//! The first row is stored as it is. The others are taken in stretches of up to
//! [`STRETCH`] rows; for each stretch and column, in this order, one control byte says
//! how its values were predicted and how many bytes each takes:
//!
//! | predictor | a value is its column's previous value plus |
//! |---|---|
//! | 0 | the residual |
//! | 1 | the previous difference (0 in the second row) plus the residual |
//! | 2 | this row's difference in the column before plus the residual |
//!
//! Residuals are zigzag-mapped and stored as planes: the lowest byte of every row of the
//! stretch, then the next byte of every row, and so on.

use super::Malformed;
use unspool_container::bytes::{ByteReader, unzigzag, zigzag};

/// The most rows that share a control byte.
pub(super) const STRETCH: usize = 64;

/// A control byte is `predictor * WIDTHS + width`.
const WIDTHS: u8 = 9;

type Values = [u64; STRETCH];

/// Packed tables.
#[derive(Debug, Default)]
pub(super) struct ColumnWriter {
    /// First rows.
    pub(super) first_rows: Vec<u64>,
    /// Control bytes.
    pub(super) control: Vec<u8>,
    /// Residuals.
    pub(super) residuals: Vec<u8>,
}

impl ColumnWriter {
    /// Starts a new chunk.
    pub(super) fn clear(&mut self) {
        self.first_rows.clear();
        self.control.clear();
        self.residuals.clear();
    }

    /// Packs a table of `columns` columns. `rows` are the positions in `words` of the
    /// rows' first words; there is at least one.
    #[inline(always)]
    pub(super) fn pack(&mut self, words: &[u64], rows: &[u32], columns: usize) {
        let Some(&first) = rows.first() else { return };
        self.first_rows
            .extend_from_slice(&words[first as usize..][..columns]);
        // The last two rows before the stretch; the same one where there is only one.
        let mut before = [first as usize; 2];
        for stretch in rows[1..].chunks(STRETCH) {
            self.pack_stretch(words, before, stretch, columns);
            before = match *stretch {
                [only] => [before[1], only as usize],
                [.., last_but_one, last] => [last_but_one as usize, last as usize],
                [] => before,
            };
        }
    }

    #[inline(always)]
    fn pack_stretch(&mut self, words: &[u64], before: [usize; 2], rows: &[u32], columns: usize) {
        let count = rows.len();
        let padded = count.next_multiple_of(LANES);
        let mut values: Shifted = [0; STRETCH + LANES];
        let mut both: [Shifted; 2] = [[0; STRETCH + LANES]; 2];
        let (mut differences, mut neighbour) = {
            let [a, b] = &mut both;
            (a, b)
        };
        for column in 0..columns {
            let previous = words[before[1] + column];
            values[0] = previous;
            for (value, &row) in values[1..].iter_mut().zip(rows) {
                *value = words[row as usize + column];
            }
            // Padding goes on as the last row did, so that it changes no residual's width.
            let last_difference = values[count].wrapping_sub(values[count - 1]);
            for i in count..padded {
                values[i + 1] = values[i].wrapping_add(last_difference);
            }
            differences[0] = previous.wrapping_sub(words[before[0] + column]);
            let mut moved = 0;
            let pairs = values[1..=padded].iter().zip(&values[..padded]);
            for (difference, (value, previous)) in differences[1..=padded].iter_mut().zip(pairs) {
                *difference = value.wrapping_sub(*previous);
                moved |= *difference;
            }
            if moved == 0 {
                self.control.push(0);
                neighbour[..=padded].fill(0);
                continue;
            }
            let now = &differences[1..=padded];
            let bits = [
                all_bits(now, &ZEROS[..padded]),
                all_bits(now, &differences[..padded]),
                all_bits(now, &neighbour[1..=padded]),
            ];
            let widths = bits.map(byte_width);
            let mut predictor = 0;
            if widths[1] < widths[predictor] {
                predictor = 1;
            }
            if widths[2] < widths[predictor] {
                predictor = 2;
            }
            let width = widths[predictor];
            self.control.push(predictor as u8 * WIDTHS + width);
            let predicted = match predictor {
                0 => &ZEROS[..padded],
                1 => &differences[..padded],
                _ => &neighbour[1..=padded],
            };
            for plane in 0..width {
                let mut bytes = [0; STRETCH];
                for (byte, (value, predicted)) in
                    bytes[..padded].iter_mut().zip(now.iter().zip(predicted))
                {
                    *byte = (zigzag(value.wrapping_sub(*predicted)) >> (8 * plane)) as u8;
                }
                self.residuals.extend_from_slice(&bytes[..count]);
            }
            std::mem::swap(&mut neighbour, &mut differences);
        }
    }
}

/// How many values are computed at once.
const LANES: usize = 8;

/// Values of a stretch, after the one before it.
type Shifted = [u64; STRETCH + LANES];

static ZEROS: Values = [0; STRETCH];

/// All bits that occur in residuals.
#[inline(always)]
fn all_bits(values: &[u64], predicted: &[u64]) -> u64 {
    let residuals = values
        .iter()
        .zip(predicted)
        .map(|(value, predicted)| zigzag(value.wrapping_sub(*predicted)));
    residuals.fold(0, |bits, residual| bits | residual)
}

/// How many bytes the largest of some values takes, given all their bits or-ed together.
fn byte_width(bits: u64) -> u8 {
    (64 - bits.leading_zeros()).div_ceil(8) as u8
}

/// Unpacks tables, in the order in which they were packed.
#[derive(Debug)]
pub(super) struct ColumnReader<'a> {
    /// First rows, as planes.
    first_rows: &'a [u8],
    next_first: usize,
    control: ByteReader<'a>,
    residuals: ByteReader<'a>,
}

impl<'a> ColumnReader<'a> {
    /// Starts with the first table.
    pub(super) fn new(first_rows: &'a [u8], control: &'a [u8], residuals: &'a [u8]) -> Self {
        ColumnReader {
            first_rows,
            next_first: 0,
            control: ByteReader::new(control),
            residuals: ByteReader::new(residuals),
        }
    }

    /// Unpacks a table into `table`, row by row.
    pub(super) fn unpack(&mut self, table: &mut [u64], columns: usize) -> Result<(), Malformed> {
        if columns == 0 {
            return Ok(());
        }
        let (first, rest) = table.split_at_mut_checked(columns).ok_or(Malformed)?;
        let total = self.first_rows.len() / 8;
        if total - self.next_first < columns {
            return Err(Malformed);
        }
        for word in first.iter_mut() {
            let plane =
                |i: usize| u64::from(self.first_rows[i * total + self.next_first]) << (8 * i);
            *word = (0..8).map(plane).sum();
            self.next_first += 1;
        }
        let mut differences = vec![0; columns];
        let mut values = first.to_vec();
        for stretch in rest.chunks_mut(STRETCH * columns) {
            self.unpack_stretch(stretch, &mut values, &mut differences)?;
        }
        Ok(())
    }

    fn unpack_stretch(
        &mut self,
        stretch: &mut [u64],
        values: &mut [u64],
        differences: &mut [u64],
    ) -> Result<(), Malformed> {
        let columns = values.len();
        let count = stretch.len() / columns;
        let mut neighbour: Values = [0; STRETCH];
        for column in 0..columns {
            let control = self.control.byte()?;
            let (predictor, width) = (control / WIDTHS, control % WIDTHS);
            let mut residuals: Values = [0; STRETCH];
            for plane in 0..width {
                let bytes = self.residuals.take(count)?;
                for (residual, &byte) in residuals.iter_mut().zip(bytes) {
                    *residual |= u64::from(byte) << (8 * plane);
                }
            }
            let mut value = values[column];
            let mut difference = differences[column];
            for i in 0..count {
                let residual = unzigzag(residuals[i]);
                difference = match predictor {
                    0 => residual,
                    1 => difference.wrapping_add(residual),
                    2 => neighbour[i].wrapping_add(residual),
                    _ => return Err(Malformed),
                };
                value = value.wrapping_add(difference);
                neighbour[i] = difference;
                stretch[i * columns + column] = value;
            }
            values[column] = value;
            differences[column] = difference;
        }
        Ok(())
    }

    /// Checks that nothing is left over.
    pub(super) fn finish(self) -> Result<(), Malformed> {
        let total = self.first_rows.len() / 8;
        let left = total - self.next_first + self.control.remaining() + self.residuals.remaining();
        if left == 0 { Ok(()) } else { Err(Malformed) }
    }
}

/// Splits words into planes: the lowest byte of each, then the next byte of each, and so on.
pub(super) fn planes(words: &[u64], bytes: &mut Vec<u8>) {
    for plane in 0..8 {
        bytes.extend(words.iter().map(|&word| (word >> (8 * plane)) as u8));
    }
}
