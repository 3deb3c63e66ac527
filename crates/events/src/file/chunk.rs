//! Chunk headers: what frames everything after the file header.

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{ByteReader, Malformed};
use crate::id::ThreadId;

/// The first bytes of every chunk, by which a reader finds the next one after damage.
pub(crate) const CHUNK_MAGIC: [u8; 8] = *b"\xd1UnspChk";

/// Bytes of a chunk header.
pub(crate) const CHUNK_HEADER_BYTES: usize = 112;

/// The longest payload that a reader accepts.
pub(crate) const MAX_PAYLOAD_BYTES: u64 = 1 << 28;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ChunkKind {
    /// Raw records of one thread, packed.
    Records = 1,
    /// Superblocks.
    Superblocks = 2,
    /// Modules.
    Modules = 3,
    /// Traced functions.
    Functions = 4,
    /// Part of the index.
    Index = 5,
    /// The totals, and where the index is. The last chunk.
    End = 6,
    /// What the observer measured of its own run.
    Measurements = 7,
}

impl ChunkKind {
    /// The inverse of `kind as u8`.
    pub(crate) fn from_u8(value: u8) -> Option<ChunkKind> {
        [
            ChunkKind::Records,
            ChunkKind::Superblocks,
            ChunkKind::Modules,
            ChunkKind::Functions,
            ChunkKind::Index,
            ChunkKind::End,
            ChunkKind::Measurements,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == value)
    }
}

/// What is counted of the records of a chunk, a thread or a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Words of raw stream.
    pub(crate) words: u64,
    /// Memory accesses.
    pub(crate) accesses: u64,
    /// Executions of accessing instructions.
    pub(crate) instructions: u64,
    /// Executions of instructions of any kind, on whole paths.
    pub(crate) executed: u64,
    /// Events.
    pub(crate) events: u64,
}

/// The header of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// What the payload holds; none where this version does not know it.
    pub(crate) kind: Option<ChunkKind>,
    /// Whether the thread's stream ends with this chunk.
    pub(crate) last_of_thread: bool,
    /// Whose records these are.
    pub(crate) thread: ThreadId,
    /// The number of the chunk, from 0, among those of the thread (records) or among those
    /// of its kind.
    pub(crate) sequence: u64,
    /// The thread's time before the first record.
    pub(crate) start_time: u64,
    /// The thread's time after the last record.
    pub(crate) end_time: u64,
    /// What is in the records.
    pub(crate) counts: Counts,
    /// Bytes of the payload.
    pub(crate) payload_bytes: u64,
    /// The payload's checksum.
    pub(crate) payload_checksum: u64,
    /// Which generation the path ids are of that the records name, or the superblocks define.
    pub(crate) generation: u64,
}

impl ChunkHeader {
    /// The header of a chunk that holds no records.
    pub(crate) fn of_table(
        kind: ChunkKind,
        sequence: u64,
        generation: u64,
        payload: &[u8],
    ) -> ChunkHeader {
        ChunkHeader {
            kind: Some(kind),
            last_of_thread: false,
            thread: ThreadId(0),
            sequence,
            start_time: 0,
            end_time: 0,
            counts: Counts::default(),
            payload_bytes: payload.len() as u64,
            payload_checksum: xxh3_64(payload),
            generation,
        }
    }

    /// Bytes of the chunk, header and payload.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + self.payload_bytes
    }

    /// Whether this is the header's payload.
    pub(crate) fn matches(&self, payload: &[u8]) -> bool {
        payload.len() as u64 == self.payload_bytes && xxh3_64(payload) == self.payload_checksum
    }

    /// Whether both describe the same chunk, what the index does not tell aside.
    pub(crate) fn describes_same(&self, other: &ChunkHeader) -> bool {
        ChunkHeader {
            payload_checksum: other.payload_checksum,
            generation: other.generation,
            ..*self
        } == *other
    }

    /// The header as bytes.
    pub(crate) fn to_bytes(self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..8].copy_from_slice(&CHUNK_MAGIC);
        bytes[8] = self.kind.map_or(0, |kind| kind as u8);
        bytes[9] = u8::from(self.last_of_thread);
        bytes[12..16].copy_from_slice(&self.thread.0.to_le_bytes());
        let Counts {
            words,
            accesses,
            instructions,
            executed,
            events,
        } = self.counts;
        let fields = [
            self.sequence,
            self.start_time,
            self.end_time,
            words,
            accesses,
            instructions,
            executed,
            events,
            self.payload_bytes,
            self.payload_checksum,
            self.generation,
        ];
        for (place, field) in bytes[16..104].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHUNK_HEADER_BYTES - 8]);
        bytes[CHUNK_HEADER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header that these bytes are.
    pub(crate) fn from_bytes(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Result<ChunkHeader, Malformed> {
        let (covered, checksum) = bytes.split_at(CHUNK_HEADER_BYTES - 8);
        if covered[..8] != CHUNK_MAGIC || xxh3_64(covered).to_le_bytes() != checksum {
            return Err(Malformed);
        }
        let mut fields = ByteReader::new(&covered[8..]);
        let kind = ChunkKind::from_u8(fields.byte()?);
        let last_of_thread = fields.byte()? & 1 != 0;
        fields.take(2)?;
        let header = ChunkHeader {
            kind,
            last_of_thread,
            thread: ThreadId(fields.u32()?),
            sequence: fields.u64()?,
            start_time: fields.u64()?,
            end_time: fields.u64()?,
            counts: Counts {
                words: fields.u64()?,
                accesses: fields.u64()?,
                instructions: fields.u64()?,
                executed: fields.u64()?,
                events: fields.u64()?,
            },
            payload_bytes: fields.u64()?,
            payload_checksum: fields.u64()?,
            generation: fields.u64()?,
        };
        if header.payload_bytes > MAX_PAYLOAD_BYTES {
            Err(Malformed)
        } else {
            Ok(header)
        }
    }
}
