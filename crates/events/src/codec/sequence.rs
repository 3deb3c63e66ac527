//! The order of records: a number for each, predicted from the number before it.
//!
//! Numbers are handed out in order of first appearance, from 1; number 0 stands before the
//! first record. Each number remembers its two latest successors. A record is written as
//! two bits:
//!
//! | code | the record's number is |
//! |---|---|
//! | 0 | the latest successor of the number before |
//! | 1 | the one before that; the two change places |
//! | 2 | written as a varint in the stream of exceptions |
//! | 3 | the next new one |
//!
//! After the codes 2 and 3 the number becomes the latest successor of the one before, and
//! the latest becomes the second.

use super::Malformed;
use unspool_container::bytes::{ByteReader, put_varint};

/// The two latest successors of a number; 0 where there is none yet.
pub(super) type Successors = [u32; 2];

/// The latest successor follows.
pub(super) const LATEST: u64 = 0;
/// The second latest successor follows.
pub(super) const SECOND: u64 = 1;
/// Another known number follows.
pub(super) const OTHER: u64 = 2;
/// A number that was not there before follows.
pub(super) const NEW: u64 = 3;

/// Gathers the codes of a chunk.
#[derive(Debug, Default)]
pub(super) struct SequenceWriter {
    /// Codes, 32 to a word, the first in the lowest bits.
    codes: Vec<u64>,
    /// The word that is being filled.
    partial: u64,
    /// How many bits of it are used.
    bits: u32,
    /// The stream of exceptions.
    exceptions: Vec<u8>,
}

impl SequenceWriter {
    /// Starts a new chunk.
    pub(super) fn clear(&mut self) {
        self.codes.clear();
        self.exceptions.clear();
        self.partial = 0;
        self.bits = 0;
    }

    /// Appends a code.
    #[inline]
    pub(super) fn push(&mut self, code: u64) {
        self.partial |= code << self.bits;
        self.bits += 2;
        if self.bits == 64 {
            self.codes.push(self.partial);
            self.partial = 0;
            self.bits = 0;
        }
    }

    /// Appends the code [`OTHER`] and its number.
    #[inline]
    pub(super) fn push_other(&mut self, number: u32) {
        self.push(OTHER);
        put_varint(&mut self.exceptions, u64::from(number));
    }

    /// The codes as bytes, appended to `bytes`.
    pub(super) fn codes(&mut self, bytes: &mut Vec<u8>) {
        for code in &self.codes {
            bytes.extend_from_slice(&code.to_le_bytes());
        }
        let rest = self.bits.div_ceil(8) as usize;
        bytes.extend_from_slice(&self.partial.to_le_bytes()[..rest]);
    }

    /// The stream of exceptions.
    pub(super) fn exceptions(&self) -> &[u8] {
        &self.exceptions
    }
}

/// Reads `records` numbers, of which there are `distinct` different ones.
pub(super) fn read_sequence(
    codes: &[u8],
    exceptions: &[u8],
    records: usize,
    distinct: usize,
) -> Result<Vec<u32>, Malformed> {
    if codes.len() != records.div_ceil(4) {
        return Err(Malformed);
    }
    let mut exceptions = ByteReader::new(exceptions);
    let mut successors: Vec<Successors> = vec![[0; 2]; distinct + 1];
    let mut numbers = Vec::with_capacity(records);
    let mut newest = 0;
    let mut previous = 0;
    for record in 0..records {
        let code = u64::from(codes[record / 4] >> (record % 4 * 2) & 3);
        let [latest, second] = &mut successors[previous as usize];
        let number = match code {
            LATEST => *latest,
            SECOND => {
                std::mem::swap(latest, second);
                *latest
            }
            _ => {
                let number = if code == NEW {
                    newest += 1;
                    newest
                } else {
                    exceptions.number()?
                };
                *second = *latest;
                *latest = number;
                number
            }
        };
        if number == 0 || number > newest || newest as usize > distinct {
            return Err(Malformed);
        }
        numbers.push(number);
        previous = number;
    }
    if newest as usize != distinct || exceptions.remaining() != 0 {
        return Err(Malformed);
    }
    Ok(numbers)
}
