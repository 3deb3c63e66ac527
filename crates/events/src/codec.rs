//! Packs a stretch of raw stream into few bytes, and unpacks it.
//!
//! The unit is a chunk: up to [`MAX_CHUNK_WORDS`] words that are whole records, packed
//! without knowledge of any other chunk. Two observations make it small:
//!
//! - **Control flow repeats.** Records are told apart by their header word. Each distinct
//!   header gets a number in order of first appearance, and each number remembers the two
//!   that followed it last; most records are one of these, which takes two bits
//!   ([`sequence`]).
//! - **Addresses of one instruction resemble each other.** The words of all records with
//!   the same header form a table; each of its columns is differenced downwards and stored
//!   in as few bytes per value as a stretch of it needs ([`columns`]).
//!
//! The results are byte streams that a general-purpose compressor shrinks further
//! ([`sections`]).
//!
//! Sorting records into tables happens once for a whole chunk rather than record by record:
//! that is faster than keeping a predictor per path up to date, and whole columns let the
//! compiler use vector instructions.

mod columns;
mod decode;
mod encode;
mod sections;
mod sequence;
#[cfg(test)]
mod tests;

pub(crate) use decode::{DecodedChunk, decode_chunk, distinct_headers};
pub(crate) use encode::{ChunkEncoder, EncodedRecords, Portion};

use unspool_container::bytes::{ByteReader, Malformed};

/// The most words that a chunk may hold. A reader refuses chunks that claim more.
pub(crate) const MAX_CHUNK_WORDS: usize = 1 << 22;

/// The compression level of tables.
const TABLE_LEVEL: i32 = 1;

/// The most bytes that the table of one chunk may have.
const MAX_TABLE_BYTES: usize = 1 << 28;

/// Packs bytes that are not records.
pub(crate) fn pack_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    sections::SectionWriter::new(Some(TABLE_LEVEL)).put(bytes, &mut packed);
    packed
}

/// Unpacks what [`pack_bytes`] packed.
pub(crate) fn unpack_bytes(packed: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut packed = ByteReader::new(packed);
    let bytes = sections::read_section(&mut packed, MAX_TABLE_BYTES)?;
    if packed.remaining() == 0 {
        Ok(bytes.into_owned())
    } else {
        Err(Malformed)
    }
}

/// How many words follow this header word.
#[inline]
pub(crate) fn payload_words(header: u64) -> usize {
    if header >> 63 == 0 {
        (header >> 24 & 0x7f) as usize
    } else {
        (header >> 40 & 0xffff) as usize
    }
}

/// The header without bits that mean nothing.
#[inline]
pub(crate) fn meaningful(header: u64) -> u64 {
    if header >> 63 == 0 {
        header & 0x7fff_ffff
    } else {
        header
    }
}
