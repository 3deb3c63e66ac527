//! The index: a line for each chunk, so that a reader finds the chunks of a thread or of a
//! time without passing over the others.

use std::collections::BTreeMap;

use super::{Summary, ThreadInfo};
use crate::id::ThreadId;
use unspool_container::FIRST_WITH_STREAMS;
use unspool_container::bytes::{ByteReader, Malformed, put_varint};
use unspool_container::chunk::{ChunkHeader, ChunkKind, Counts, IN_PLACE, LAST_OF_THREAD};
use unspool_container::stream::StreamNumber;

/// Where a chunk is, and its header without the checksum and the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Where its header starts.
    pub(crate) offset: u64,
    /// What its header says. Checksum and generation are not in the index, and 0 here.
    pub(crate) header: ChunkHeader,
}

/// Gathers the index while the file is written, as bytes: a long trace has many chunks.
#[derive(Debug, Default)]
pub(crate) struct IndexWriter {
    parts: Vec<Vec<u8>>,
    entries_in_part: usize,
}

/// How many chunks one part of the index lists.
const ENTRIES_IN_PART: usize = 1 << 16;

impl IndexWriter {
    /// Adds a chunk.
    pub(crate) fn push(&mut self, offset: u64, header: &ChunkHeader) {
        if self.parts.is_empty() || self.entries_in_part == ENTRIES_IN_PART {
            self.parts.push(Vec::new());
            self.entries_in_part = 0;
        }
        self.entries_in_part += 1;
        let Some(part) = self.parts.last_mut() else {
            return;
        };
        part.push(header.kind.map_or(0, |kind| kind as u8));
        part.push(header.flags());
        put_varint(part, u64::from(header.thread.0));
        put_varint(part, u64::from(header.stream.0));
        let Counts {
            words,
            accesses,
            instructions,
            executed,
            events,
        } = header.counts;
        let span = header.end_time.wrapping_sub(header.start_time);
        for field in [
            offset,
            header.payload_bytes,
            header.sequence,
            header.start_time,
            span,
            words,
            accesses,
            instructions,
            executed,
            events,
        ] {
            put_varint(part, field);
        }
    }

    /// The parts, to be written as chunks.
    pub(crate) fn take_parts(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.parts)
    }
}

/// Reads one part of the index, of a file of this version.
pub(crate) fn read_part(
    bytes: &[u8],
    version: u32,
    entries: &mut Vec<IndexEntry>,
) -> Result<(), Malformed> {
    let mut bytes = ByteReader::new(bytes);
    while bytes.remaining() > 0 {
        let kind = ChunkKind::from_u8(bytes.byte()?);
        let flags = bytes.byte()?;
        let thread = ThreadId(bytes.number()?);
        let stream = match version < FIRST_WITH_STREAMS {
            true => StreamNumber(0),
            false => StreamNumber(bytes.number()?),
        };
        let offset = bytes.varint()?;
        let payload_bytes = bytes.varint()?;
        let sequence = bytes.varint()?;
        let start_time = bytes.varint()?;
        let end_time = start_time.wrapping_add(bytes.varint()?);
        let counts = Counts {
            words: bytes.varint()?,
            accesses: bytes.varint()?,
            instructions: bytes.varint()?,
            executed: bytes.varint()?,
            events: bytes.varint()?,
        };
        let header = ChunkHeader {
            kind,
            last_of_thread: flags & LAST_OF_THREAD != 0,
            is_in_place: flags & IN_PLACE != 0,
            stream,
            thread,
            sequence,
            start_time,
            end_time,
            counts,
            payload_bytes,
            payload_checksum: 0,
            generation: 0,
        };
        entries.push(IndexEntry { offset, header });
    }
    Ok(())
}

/// The contents of the end chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// Where the first part of the index is.
    pub(crate) index_offset: u64,
    /// How many parts the index has.
    pub(crate) index_parts: u64,
    /// Words that were lost.
    pub(crate) dropped_words: u64,
    /// Superblocks defined.
    pub(crate) superblocks: u64,
}

impl End {
    /// The payload of the end chunk.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in [
            self.index_offset,
            self.index_parts,
            self.dropped_words,
            self.superblocks,
        ] {
            put_varint(&mut bytes, field);
        }
        bytes
    }

    /// Reads the payload of the end chunk.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<End, Malformed> {
        let mut bytes = ByteReader::new(bytes);
        Ok(End {
            index_offset: bytes.varint()?,
            index_parts: bytes.varint()?,
            dropped_words: bytes.varint()?,
            superblocks: bytes.varint()?,
        })
    }
}

/// What a file's record chunks add up to, by thread.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    threads: BTreeMap<ThreadId, ThreadInfo>,
    executed: u64,
}

impl Totals {
    /// Adds a chunk; only those with records count.
    pub(crate) fn add(&mut self, header: &ChunkHeader) {
        if header.kind != Some(ChunkKind::Records) {
            return;
        }
        let info = self.threads.entry(header.thread).or_insert(ThreadInfo {
            thread: header.thread,
            chunks: 0,
            start_time: header.start_time,
            end_time: header.end_time,
            accesses: 0,
            instructions: 0,
            events: 0,
            raw_words: 0,
            file_bytes: 0,
            finished: false,
        });
        let counts = &header.counts;
        info.chunks += 1;
        info.start_time = info.start_time.min(header.start_time);
        info.end_time = info.end_time.max(header.end_time);
        info.accesses = info.accesses.saturating_add(counts.accesses);
        info.instructions = info.instructions.saturating_add(counts.instructions);
        info.events = info.events.saturating_add(counts.events);
        info.raw_words = info.raw_words.saturating_add(counts.words);
        info.file_bytes = info.file_bytes.saturating_add(header.chunk_bytes());
        info.finished |= header.last_of_thread;
        self.executed = self.executed.saturating_add(counts.executed);
    }

    /// The threads, by id.
    pub(crate) fn threads(&self) -> Vec<ThreadInfo> {
        self.threads.values().copied().collect()
    }

    /// The totals of all threads.
    pub(crate) fn summary(&self) -> Summary {
        let sum = |field: fn(&ThreadInfo) -> u64| {
            self.threads
                .values()
                .map(field)
                .fold(0, u64::saturating_add)
        };
        Summary {
            threads: self.threads.len() as u64,
            accesses: sum(|info| info.accesses),
            instructions: sum(|info| info.instructions),
            executed: self.executed,
            events: sum(|info| info.events),
            raw_words: sum(|info| info.raw_words),
            ..Summary::default()
        }
    }
}
