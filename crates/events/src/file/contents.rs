//! What is in a file: the chunks from its index, or found by passing over it, and the tables.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::index::{End, IndexEntry, read_part};
use super::output::{TRAILER_BYTES, TRAILER_MAGIC};
use super::recovery::find_chunks;
use super::start::Start;
use crate::codec::unpack_bytes;
use crate::problem::{Damage, Problem};
use crate::tables::Tables;
use unspool_container::Layout;
use unspool_container::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind};

/// The contents of a file, without the records.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Where the chunks are, in the order of the file.
    pub(super) chunks: Vec<IndexEntry>,
    /// The end chunk of a finished file.
    pub(super) end: Option<End>,
    pub(super) tables: Tables,
    pub(super) problems: Vec<Problem>,
}

/// Finds what is in a file.
pub(super) fn find_contents(file: &File, start: &Start, file_bytes: u64) -> Contents {
    let mut contents = find_chunks_of(file, start, file_bytes);
    contents.read_tables(file);
    contents
}

/// Likewise, without the tables.
pub(super) fn find_chunks_of(file: &File, start: &Start, file_bytes: u64) -> Contents {
    let mut contents = Contents::default();
    if start.layout == Layout::InPlace {
        contents.chunks = find_chunks(file, start, file_bytes, &mut contents.problems);
        return contents;
    }
    match read_index(file, start, file_bytes) {
        Ok((end, chunks)) => {
            contents.end = Some(end);
            contents.chunks = chunks;
        }
        Err(missing) => {
            contents.problems.push(Problem::NoIndex { what: missing });
            contents.chunks = find_chunks(file, start, file_bytes, &mut contents.problems);
        }
    }
    contents
}

/// Reads the chunk whose header is at `offset`, and checks its payload.
pub(super) fn read_chunk(file: &File, offset: u64) -> Result<(ChunkHeader, Vec<u8>), Damage> {
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    file.read_exact_at(&mut bytes, offset)
        .map_err(|_| "its header cannot be read")?;
    let header = ChunkHeader::from_bytes(&bytes).map_err(|_| "its header is damaged")?;
    let file_bytes = file
        .metadata()
        .map_err(|_| "the file cannot be read")?
        .len();
    let payload_offset = offset + CHUNK_HEADER_BYTES as u64;
    if header.payload_bytes > file_bytes.saturating_sub(payload_offset) {
        return Err("it is cut off");
    }
    let mut payload = vec![0; header.payload_bytes as usize];
    file.read_exact_at(&mut payload, payload_offset)
        .map_err(|_| "it cannot be read")?;
    if header.matches(&payload) {
        Ok((header, payload))
    } else {
        Err("its checksum is wrong")
    }
}

/// Reads the index of a finished file.
fn read_index(
    file: &File,
    start: &Start,
    file_bytes: u64,
) -> Result<(End, Vec<IndexEntry>), Damage> {
    let mut trailer = [0; TRAILER_BYTES];
    let trailer_offset = file_bytes
        .saturating_sub(TRAILER_BYTES as u64)
        .max(start.end);
    file.read_exact_at(&mut trailer, trailer_offset)
        .map_err(|_| "its end is missing")?;
    let (end_offset, magic) = trailer.split_at(8);
    if magic != TRAILER_MAGIC {
        return Err("its end is missing");
    }
    let end_offset = end_offset
        .try_into()
        .map(u64::from_le_bytes)
        .unwrap_or(u64::MAX);
    let within = |offset: u64| (start.end..trailer_offset).contains(&offset);
    if !within(end_offset) {
        return Err("its end is damaged");
    }
    let (header, payload) = read_chunk(file, end_offset)?;
    let end = End::from_bytes(&payload).map_err(|_| "its end is damaged")?;
    if header.kind != Some(ChunkKind::End) {
        return Err("its end is damaged");
    }
    let mut entries = Vec::new();
    let mut offset = end.index_offset;
    for _ in 0..end.index_parts {
        if !within(offset) {
            return Err("its index is damaged");
        }
        let (header, payload) = read_chunk(file, offset)?;
        let part = unpack_bytes(&payload).map_err(|_| "its index is damaged")?;
        read_part(&part, start.version, &mut entries).map_err(|_| "its index is damaged")?;
        if header.kind != Some(ChunkKind::Index) {
            return Err("its index is damaged");
        }
        offset += header.chunk_bytes();
    }
    if entries.iter().all(|entry| within(entry.offset)) {
        Ok((end, entries))
    } else {
        Err("its index is damaged")
    }
}

impl Contents {
    fn read_tables(&mut self, file: &File) {
        for entry in &self.chunks {
            let Some(
                ChunkKind::Modules
                | ChunkKind::Functions
                | ChunkKind::Superblocks
                | ChunkKind::Measurements
                | ChunkKind::Streams,
            ) = entry.header.kind
            else {
                continue;
            };
            let read = read_chunk(file, entry.offset);
            let added = read.and_then(|(header, payload)| self.tables.add(&header, &payload));
            if let Err(what) = added {
                let (offset, length) = (entry.offset, entry.header.chunk_bytes());
                self.problems.push(Problem::Damaged {
                    offset,
                    length,
                    what,
                });
            }
        }
        self.problems.extend(self.tables.streams.problems());
    }
}
