//! Packed bytes in, raw words out. The bytes may be anything.

use super::columns::ColumnReader;
use super::sections::read_section;
use super::sequence::read_sequence;
use super::{MAX_CHUNK_WORDS, Malformed, payload_words};
use crate::raw::PATH_IDS;
use unspool_container::bytes::{ByteReader, unzigzag};

/// The records of a chunk, unpacked.
#[derive(Debug, Default)]
pub(crate) struct DecodedChunk {
    /// The distinct headers, each with the position of its next record's words in `tables`.
    kinds: Vec<DecodedKind>,
    /// The index in `kinds` of each record.
    sequence: Vec<u32>,
    /// How many records were taken.
    taken: usize,
    tables: Vec<u64>,
}

#[derive(Debug)]
struct DecodedKind {
    header: u64,
    words: usize,
    next: usize,
}

impl DecodedChunk {
    /// The distinct headers.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = u64> {
        self.kinds.iter().map(|kind| kind.header)
    }

    /// Takes the next record: the index of its header in [`DecodedChunk::distinct`], and its
    /// words.
    #[inline]
    pub(crate) fn next_record(&mut self) -> Option<(usize, &[u64])> {
        let &number = self.sequence.get(self.taken)?;
        let index = number as usize - 1;
        self.taken += 1;
        let kind = &mut self.kinds[index];
        let words = &self.tables[kind.next..][..kind.words];
        kind.next += kind.words;
        Some((index, words))
    }
}

/// How a chunk begins.
struct Start<'a> {
    records: usize,
    kinds: Vec<DecodedKind>,
    /// The most bytes that a section may have.
    limit: usize,
    rest: ByteReader<'a>,
}

impl Start<'_> {
    fn read(packed: &[u8], words: u64) -> Result<Start<'_>, Malformed> {
        if words > MAX_CHUNK_WORDS as u64 {
            return Err(Malformed);
        }
        let words = words as usize;
        let mut packed = ByteReader::new(packed);
        let records: usize = packed.number()?;
        let distinct: usize = packed.number()?;
        if records > words || distinct > records {
            return Err(Malformed);
        }
        // No section is longer than sixteen bytes for each word.
        let limit = 16 * words;
        let headers = read_section(&mut packed, limit)?;
        Ok(Start {
            records,
            kinds: read_headers(&headers, distinct)?,
            limit,
            rest: packed,
        })
    }
}

/// The distinct headers of a chunk, which stand at its beginning: nothing else is unpacked.
pub(crate) fn distinct_headers(packed: &[u8], words: u64) -> Result<Vec<u64>, Malformed> {
    let start = Start::read(packed, words)?;
    Ok(start.kinds.iter().map(|kind| kind.header).collect())
}

/// Unpacks a chunk that has this many words.
pub(crate) fn decode_chunk(packed: &[u8], words: u64) -> Result<DecodedChunk, Malformed> {
    let Start {
        records,
        mut kinds,
        limit,
        rest: mut packed,
    } = Start::read(packed, words)?;
    let words = words as usize;
    let distinct = kinds.len();
    let codes = read_section(&mut packed, limit)?;
    let exceptions = read_section(&mut packed, limit)?;
    let first_rows = read_section(&mut packed, limit)?;
    let control = read_section(&mut packed, limit)?;
    let residuals = read_section(&mut packed, limit)?;
    if packed.remaining() != 0 {
        return Err(Malformed);
    }

    let sequence = read_sequence(&codes, &exceptions, records, distinct)?;
    let mut counts = vec![0; distinct];
    for &number in &sequence {
        counts[number as usize - 1] += 1;
    }
    let payload = lay_out_tables(&mut kinds, &counts, words - records)?;
    let mut tables = vec![0; payload];
    let mut columns = ColumnReader::new(&first_rows, &control, &residuals);
    for (kind, count) in kinds.iter().zip(counts) {
        columns.unpack(&mut tables[kind.next..][..kind.words * count], kind.words)?;
    }
    columns.finish()?;
    Ok(DecodedChunk {
        kinds,
        sequence,
        taken: 0,
        tables,
    })
}

/// Gives every table its place, and returns the words of all of them, which must be `expected`.
fn lay_out_tables(
    kinds: &mut [DecodedKind],
    counts: &[usize],
    expected: usize,
) -> Result<usize, Malformed> {
    let mut total = 0;
    for (kind, count) in kinds.iter_mut().zip(counts) {
        kind.next = total;
        total += kind.words * count;
    }
    if total == expected {
        Ok(total)
    } else {
        Err(Malformed)
    }
}

fn read_headers(headers: &[u8], distinct: usize) -> Result<Vec<DecodedKind>, Malformed> {
    let mut headers = ByteReader::new(headers);
    let mut kinds = Vec::with_capacity(distinct);
    let mut path = 0_u64;
    for _ in 0..distinct {
        let first = headers.varint()?;
        let header = if first & 1 == 0 {
            path = path.wrapping_add(unzigzag(first >> 1));
            let words = headers.byte()?;
            if path >= u64::from(PATH_IDS) || words > 127 {
                return Err(Malformed);
            }
            path | u64::from(words) << 24
        } else {
            let header = headers.u64()?;
            if header >> 63 == 0 {
                return Err(Malformed);
            }
            header
        };
        kinds.push(DecodedKind {
            header,
            words: payload_words(header),
            next: 0,
        });
    }
    if headers.remaining() == 0 {
        Ok(kinds)
    } else {
        Err(Malformed)
    }
}
