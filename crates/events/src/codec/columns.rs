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
use crate::bytes::{ByteReader, unzigzag, zigzag};

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

    fn pack_stretch(&mut self, words: &[u64], before: [usize; 2], rows: &[u32], columns: usize) {
        let count = rows.len();
        let mut values: Values = [0; STRETCH];
        let mut differences: Values = [0; STRETCH];
        let mut neighbour: Values = [0; STRETCH];
        let mut residuals: [Values; 3] = [[0; STRETCH]; 3];
        for column in 0..columns {
            for (value, &row) in values.iter_mut().zip(rows) {
                *value = words[row as usize + column];
            }
            let previous = words[before[1] + column];
            let previous_difference = previous.wrapping_sub(words[before[0] + column]);
            differences[0] = values[0].wrapping_sub(previous);
            for i in 1..count {
                differences[i] = values[i].wrapping_sub(values[i - 1]);
            }
            let mut bits = [0; 3];
            residuals[1][0] = zigzag(differences[0].wrapping_sub(previous_difference));
            bits[1] = residuals[1][0];
            for i in 0..count {
                let residual = zigzag(differences[i]);
                residuals[0][i] = residual;
                bits[0] |= residual;
                let residual = zigzag(differences[i].wrapping_sub(neighbour[i]));
                residuals[2][i] = residual;
                bits[2] |= residual;
            }
            for i in 1..count {
                let residual = zigzag(differences[i].wrapping_sub(differences[i - 1]));
                residuals[1][i] = residual;
                bits[1] |= residual;
            }
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
            for plane in 0..width {
                self.residuals.extend(
                    residuals[predictor][..count]
                        .iter()
                        .map(|&value| (value >> (8 * plane)) as u8),
                );
            }
            std::mem::swap(&mut neighbour, &mut differences);
        }
    }
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
