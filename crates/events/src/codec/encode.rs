//! Raw words in, packed bytes out.

use rustc_hash::FxHashMap;

use super::columns::{ColumnWriter, planes};
use super::sections::SectionWriter;
use super::sequence::{LATEST, NEW, SECOND, SequenceWriter, Successors};
use super::{MAX_CHUNK_WORDS, meaningful, payload_words};
use crate::raw::{PATH_IDS, SpecialKind};
use unspool_container::bytes::{put_varint, zigzag};

/// Packs chunks, one after the other. Holds memory that one chunk after the other uses,
/// and nothing of their contents.
#[derive(Debug)]
pub(crate) struct ChunkEncoder {
    kinds: DistinctHeaders,
    numbers_by_path: NumbersByPath,
    /// The numbers of headers that are not those of paths, and of paths whose records have
    /// different numbers of words.
    other_numbers: FxHashMap<u64, u32>,
    sequence: SequenceWriter,
    /// For each record its number, and the position of its first word after the header.
    records: Vec<(u32, u32)>,
    /// The positions of `records`, sorted by number.
    rows: Vec<u32>,
    columns: ColumnWriter,
    sections: SectionWriter,
    scratch: Vec<u8>,
}

/// What no record has for a header: successors that are not there yet compare as different.
const NO_HEADER: u64 = 1 << 62;

/// The distinct headers of a chunk, by number; number 0 stands before the first record.
type DistinctHeaders = Vec<DistinctHeader>;

#[derive(Debug, Clone, Copy, Default)]
struct DistinctHeader {
    header: u64,
    successors: Successors,
    count: u32,
    /// Where its rows start in `rows`; while they are filled in, where the next one goes.
    row: u32,
}

/// What one call of [`ChunkEncoder::encode`] packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EncodedRecords {
    /// How many words, from the first on.
    pub(crate) words: usize,
    /// How many records.
    pub(crate) records: usize,
    /// How many words after these are stamps and values, held back because the record that
    /// they belong to is not there yet.
    pub(crate) held_back: usize,
}

/// Which records to pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portion {
    /// Stop after the record, stamps and values aside, that reaches this number of words.
    pub(crate) wanted_words: usize,
    /// Whether to hold back stamps and values at the end.
    pub(crate) hold_back: bool,
}

impl ChunkEncoder {
    /// `level` is the level of the compressor: lower is faster, also below 0; none does
    /// without it.
    pub(crate) fn new(level: Option<i32>) -> Self {
        ChunkEncoder {
            kinds: Vec::new(),
            numbers_by_path: NumbersByPath::default(),
            other_numbers: FxHashMap::default(),
            sequence: SequenceWriter::default(),
            records: Vec::new(),
            rows: Vec::new(),
            columns: ColumnWriter::default(),
            sections: SectionWriter::new(level),
            scratch: Vec::new(),
        }
    }

    /// Packs the whole records at the start of `words`, as many as a chunk may hold or the
    /// portion says, and appends the result to `packed`.
    pub(crate) fn encode(
        &mut self,
        words: &[u64],
        portion: Portion,
        packed: &mut Vec<u8>,
    ) -> EncodedRecords {
        let words = &words[..words.len().min(MAX_CHUNK_WORDS)];
        let (whole, unannotated) = self.number_records(words, portion.wanted_words);
        let consumed = if portion.hold_back {
            unannotated
        } else {
            whole
        };
        if consumed < whole {
            self.number_records(&words[..consumed], consumed);
        }
        self.sort_rows();
        self.columns.clear();
        pulp::Arch::new().dispatch(PackColumns {
            columns: &mut self.columns,
            kinds: &self.kinds,
            rows: &self.rows,
            words,
        });
        self.put_sections(packed);
        EncodedRecords {
            words: consumed,
            records: self.records.len(),
            held_back: whole - consumed,
        }
    }

    /// The distinct headers of the records packed last, each with the positions of its
    /// records' first words after the header.
    pub(crate) fn distinct(&self) -> impl Iterator<Item = (u64, &[u32])> {
        self.kinds.iter().skip(1).map(|kind| {
            (
                kind.header,
                &self.rows[kind.row as usize..][..kind.count as usize],
            )
        })
    }

    /// The records packed last: for each the index of its header in
    /// [`ChunkEncoder::distinct`], and the position of its first word after the header.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, usize)> {
        self.records
            .iter()
            .map(|&(number, row)| (number as usize - 1, row as usize))
    }

    /// Finds the records, and gives each its number. Returns how many words they have, with
    /// and without the stamps and values at the end.
    fn number_records(&mut self, words: &[u64], wanted: usize) -> (usize, usize) {
        self.kinds.clear();
        self.kinds.push(DistinctHeader {
            header: NO_HEADER,
            ..DistinctHeader::default()
        });
        self.numbers_by_path.clear();
        self.other_numbers.clear();
        self.sequence.clear();
        self.records.clear();
        let mut previous = 0;
        let mut position = 0;
        let mut unannotated = 0;
        while let Some(&header) = words.get(position)
            && unannotated < wanted
        {
            let header = meaningful(header);
            let next = position + 1 + payload_words(header);
            if next > words.len() {
                break;
            }
            let number = self.number_record(previous, header);
            self.kinds[number as usize].count += 1;
            self.records.push((number, position as u32 + 1));
            previous = number as usize;
            position = next;
            if !is_annotation(header) {
                unannotated = next;
            }
        }
        (position, unannotated)
    }

    #[inline]
    fn number_record(&mut self, previous: usize, header: u64) -> u32 {
        let [latest, second] = self.kinds[previous].successors;
        if self.kinds[latest as usize].header == header {
            self.sequence.push(LATEST);
            return latest;
        }
        if self.kinds[second as usize].header == header {
            self.sequence.push(SECOND);
            self.kinds[previous].successors = [second, latest];
            return second;
        }
        let number = self.look_up(header);
        self.kinds[previous].successors = [number, latest];
        number
    }

    #[cold]
    #[inline(never)]
    fn look_up(&mut self, header: u64) -> u32 {
        let new = self.kinds.len() as u32;
        let known = self.numbers_by_path.slot(header);
        let number = match known {
            Some(slot) if *slot == 0 => {
                *slot = new;
                new
            }
            Some(slot) if self.kinds[*slot as usize].header == header => *slot,
            _ => *self.other_numbers.entry(header).or_insert(new),
        };
        if number == new {
            self.kinds.push(DistinctHeader {
                header,
                ..DistinctHeader::default()
            });
            self.sequence.push(NEW);
        } else {
            self.sequence.push_other(number);
        }
        number
    }

    /// A counting sort of the records' positions by number.
    fn sort_rows(&mut self) {
        let mut start = 0;
        for kind in &mut self.kinds {
            kind.row = start;
            start += kind.count;
        }
        self.rows.resize(self.records.len(), 0);
        for &(number, position) in &self.records {
            let kind = &mut self.kinds[number as usize];
            self.rows[kind.row as usize] = position;
            kind.row += 1;
        }
        for kind in &mut self.kinds {
            kind.row -= kind.count;
        }
    }

    fn put_sections(&mut self, packed: &mut Vec<u8>) {
        put_varint(packed, self.records.len() as u64);
        put_varint(packed, self.kinds.len() as u64 - 1);
        let scratch = &mut self.scratch;
        scratch.clear();
        let mut previous_path = 0;
        for kind in &self.kinds[1..] {
            put_header(scratch, kind.header, &mut previous_path);
        }
        self.sections.put(scratch, packed);
        scratch.clear();
        self.sequence.codes(scratch);
        self.sections.put(scratch, packed);
        self.sections.put(self.sequence.exceptions(), packed);
        scratch.clear();
        planes(&self.columns.first_rows, scratch);
        self.sections.put(scratch, packed);
        self.sections.put(&self.columns.control, packed);
        self.sections.put(&self.columns.residuals, packed);
    }
}

/// Packs all tables, with the widest vector instructions that the processor has.
struct PackColumns<'a> {
    columns: &'a mut ColumnWriter,
    kinds: &'a [DistinctHeader],
    rows: &'a [u32],
    words: &'a [u64],
}

impl pulp::WithSimd for PackColumns<'_> {
    type Output = ();

    // Whatever is not inlined here is compiled for the oldest processor.
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for kind in &self.kinds[1..] {
            let rows = &self.rows[kind.row as usize..][..kind.count as usize];
            self.columns
                .pack(self.words, rows, payload_words(kind.header));
        }
    }
}

/// Whether a record belongs to the next one.
#[inline]
fn is_annotation(header: u64) -> bool {
    const STAMP: u64 = 1 << 7 | SpecialKind::Stamp as u64;
    const PLAIN_VALUES: u64 = 1 << 7 | SpecialKind::PlainValues as u64;
    const VALUES: u64 = 1 << 7 | SpecialKind::Values as u64;
    matches!(header >> 56, STAMP | PLAIN_VALUES | VALUES)
}

/// Appends a distinct header: of a path twice its id's zigzag-mapped distance from the
/// path before, then its number of words; of a special record 1, then its header word.
fn put_header(bytes: &mut Vec<u8>, header: u64, previous_path: &mut u64) {
    if header >> 63 == 0 {
        let path = header & u64::from(PATH_IDS - 1);
        put_varint(bytes, zigzag(path.wrapping_sub(*previous_path)) << 1);
        bytes.push(payload_words(header) as u8);
        *previous_path = path;
    } else {
        bytes.push(1);
        bytes.extend_from_slice(&header.to_le_bytes());
    }
}

/// The numbers of path headers, by path id: a table in pages, so that it grows with the
/// code that runs. It is cleared by moving on to the next generation.
#[derive(Debug, Default)]
struct NumbersByPath {
    pages: Vec<Option<Box<Page>>>,
    generation: u32,
}

#[derive(Debug)]
struct Page {
    generation: u32,
    numbers: [u32; Page::LENGTH],
}

impl Page {
    const LENGTH: usize = 256;
}

impl NumbersByPath {
    fn clear(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.pages.clear();
        }
    }

    /// Where the number of this header's path stands, 0 if it has none yet; none if the
    /// header is not a path's.
    fn slot(&mut self, header: u64) -> Option<&mut u32> {
        if header >> 63 != 0 {
            return None;
        }
        let path = (header & u64::from(PATH_IDS - 1)) as usize;
        let page_index = path / Page::LENGTH;
        if page_index >= self.pages.len() {
            self.pages.resize_with(page_index + 1, || None);
        }
        let generation = self.generation;
        let page = self.pages[page_index].get_or_insert_with(|| {
            Box::new(Page {
                generation,
                numbers: [0; Page::LENGTH],
            })
        });
        if page.generation != generation {
            page.generation = generation;
            page.numbers.fill(0);
        }
        Some(&mut page.numbers[path % Page::LENGTH])
    }
}
