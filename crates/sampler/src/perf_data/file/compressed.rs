//! Records that `perf record -z` has compressed: one stream of Zstandard, in pieces, which need not end where
//! records do.

use unspool_container::bytes::Malformed;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Records whose whole body is a piece, and those that say how much of it is.
const WHOLE: u32 = 81;
const PART: u32 = 83;

/// Copies of stacks that hardly change become some hundred times smaller: what becomes so many times larger
/// is none of perf's.
const MOST_GROWTH: u64 = 4096;
const PIECE: usize = 1 << 16;
/// Source: RFC 8878, section 3.1.1.2.
const BLOCK_HEADER_BYTES: usize = 3;

/// What was compressed, as far as it was read.
pub(super) struct Compressed {
    decoder: Decoder<'static>,
    /// Bytes of a record whose end is in a later piece.
    begun: Vec<u8>,
    /// How many bytes the decoder wants next: between blocks, the header of one.
    wanted: usize,
    /// Bytes before, and what they have become.
    taken: u64,
    given: u64,
}

/// Whether records of this kind are pieces.
pub(super) fn is_compressed(kind: u32) -> bool {
    matches!(kind, WHOLE | PART)
}

impl Compressed {
    pub(super) fn new() -> Result<Compressed, Malformed> {
        Ok(Compressed {
            decoder: Decoder::new().map_err(|_| Malformed)?,
            begun: Vec::new(),
            wanted: 0,
            taken: 0,
            given: 0,
        })
    }

    /// The whole records that are there with one more piece.
    pub(super) fn unpack(&mut self, kind: u32, body: &[u8]) -> Result<Vec<u8>, Malformed> {
        let piece = match kind {
            PART => {
                let (length, rest) = body.split_first_chunk().ok_or(Malformed)?;
                let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| Malformed)?;
                rest.get(..length).ok_or(Malformed)?
            }
            _ => body,
        };
        self.taken += piece.len() as u64;
        let mut input = InBuffer::around(piece);
        let mut buffer = vec![0; PIECE];
        loop {
            let mut output = OutBuffer::around(&mut buffer[..]);
            let done = self.decoder.run(&mut input, &mut output);
            self.wanted = done.map_err(|_| Malformed)?;
            let given = output.as_slice();
            self.given += given.len() as u64;
            if self.given > self.taken.saturating_mul(MOST_GROWTH) {
                return Err(Malformed);
            }
            self.begun.extend_from_slice(given);
            if input.pos() == piece.len() && given.len() < PIECE {
                break;
            }
        }
        let begun = self.begun.split_off(whole_records(&self.begun)?);
        Ok(std::mem::replace(&mut self.begun, begun))
    }

    /// Whether the end of a record is missing, or that of a block.
    pub(super) fn is_cut_off(&self) -> bool {
        !self.begun.is_empty() || !matches!(self.wanted, 0 | BLOCK_HEADER_BYTES)
    }
}

/// How many bytes of these are of records that are there whole.
fn whole_records(bytes: &[u8]) -> Result<usize, Malformed> {
    let mut end = 0;
    while let Some(length) = bytes.get(end + 6..end + 8) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        if length < 8 {
            return Err(Malformed);
        }
        if end + length > bytes.len() {
            break;
        }
        end += length;
    }
    Ok(end)
}
