//! Byte streams, each compressed by itself where that makes it smaller.
//!
//! A section is its length before compression and its length in the file, as varints, then
//! its bytes. Where the two lengths are equal it is stored as it is, otherwise as a zstd
//! frame.

use std::borrow::Cow;
use std::fmt;

use super::Malformed;
use unspool_container::bytes::{ByteReader, put_varint};

/// Sections shorter than this are not worth a compressor's time.
const SHORTEST_COMPRESSED: usize = 64;

/// How much of a section shows whether the rest is worth a compressor's time: if a fast
/// compressor does not save a quarter of it, these are addresses without a pattern.
const SAMPLE: usize = 4096;

/// Sections shorter than this are compressed without a look at a sample.
const SHORTEST_SAMPLED: usize = 8 * SAMPLE;

/// Compresses sections; keeps the compressor's memory between them.
pub(super) struct SectionWriter {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    compressed: Vec<u8>,
}

impl SectionWriter {
    /// `level` is zstd's; lower is faster, also below 0. None stores sections as they are.
    pub(super) fn new(level: Option<i32>) -> Self {
        SectionWriter {
            // Without memory for a compressor the sections are stored as they are, too.
            compressor: level.and_then(|level| zstd::bulk::Compressor::new(level).ok()),
            compressed: Vec::new(),
        }
    }

    /// Appends a section.
    pub(super) fn put(&mut self, section: &[u8], bytes: &mut Vec<u8>) {
        put_varint(bytes, section.len() as u64);
        let compressed = self.compress(section).unwrap_or(section);
        put_varint(bytes, compressed.len() as u64);
        bytes.extend_from_slice(compressed);
    }

    fn compress(&mut self, section: &[u8]) -> Option<&[u8]> {
        if section.len() < SHORTEST_COMPRESSED {
            return None;
        }
        if section.len() >= SHORTEST_SAMPLED {
            let sample = &section[section.len() / 2..][..SAMPLE];
            if self.compressed_length(sample)? > SAMPLE / 4 * 3 {
                return None;
            }
        }
        let length = self.compressed_length(section)?;
        (length < section.len()).then_some(&self.compressed[..length])
    }

    /// Compresses bytes into `compressed`; none if that fails.
    fn compressed_length(&mut self, bytes: &[u8]) -> Option<usize> {
        self.compressed.clear();
        self.compressed
            .reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        self.compressor
            .as_mut()?
            .compress_to_buffer(bytes, &mut self.compressed)
            .ok()
    }
}

impl fmt::Debug for SectionWriter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SectionWriter")
            .finish_non_exhaustive()
    }
}

/// Reads the next section, of at most `limit` bytes once decompressed.
pub(super) fn read_section<'a>(
    bytes: &mut ByteReader<'a>,
    limit: usize,
) -> Result<Cow<'a, [u8]>, Malformed> {
    let length: usize = bytes.number()?;
    let stored = bytes.bytes()?;
    if length > limit || stored.len() > length {
        return Err(Malformed);
    }
    if stored.len() == length {
        return Ok(Cow::Borrowed(stored));
    }
    let section = zstd::bulk::decompress(stored, length).map_err(|_| Malformed)?;
    if section.len() != length {
        return Err(Malformed);
    }
    Ok(Cow::Owned(section))
}
