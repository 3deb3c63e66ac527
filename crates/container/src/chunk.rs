//! Chunk headers: what frames everything after the file header.

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{ByteReader, Malformed};
use crate::stream::StreamNumber;
use crate::thread::ThreadId;

/// The first bytes of every chunk, by which a reader finds the next one after damage.
pub const CHUNK_MAGIC: [u8; 8] = *b"\xd1UnspChk";

/// Bytes of a chunk header.
pub const CHUNK_HEADER_BYTES: usize = 112;

/// The longest payload that a reader accepts.
pub(crate) const MAX_PAYLOAD_BYTES: u64 = 1 << 28;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkKind {
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
    /// Declarations of streams.
    Streams = 8,
    /// Part of one stream, in a layout of its own.
    Block = 9,
}

impl ChunkKind {
    /// The inverse of `kind as u8`.
    #[must_use]
    pub fn from_u8(value: u8) -> Option<ChunkKind> {
        [
            ChunkKind::Records,
            ChunkKind::Superblocks,
            ChunkKind::Modules,
            ChunkKind::Functions,
            ChunkKind::Index,
            ChunkKind::End,
            ChunkKind::Measurements,
            ChunkKind::Streams,
            ChunkKind::Block,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == value)
    }
}

/// Flag of a chunk: the thread's records end with it.
pub const LAST_OF_THREAD: u8 = 1;
/// Flag of a chunk: its payload is filled in place.
pub const IN_PLACE: u8 = 2;

/// What is counted of the records of a chunk, a thread or a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Words of raw stream.
    pub words: u64,
    /// Memory accesses.
    pub accesses: u64,
    /// Executions of accessing instructions.
    pub instructions: u64,
    /// Executions of instructions of any kind, on whole paths.
    pub executed: u64,
    /// Events.
    pub events: u64,
}

/// The header of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// What the payload holds; none where this version does not know it.
    pub kind: Option<ChunkKind>,
    /// Whether the thread's records end with this chunk.
    pub last_of_thread: bool,
    /// Whether the payload is filled in place, and so has no checksum.
    pub is_in_place: bool,
    /// Whose the payload is, if it belongs to one declared stream; otherwise 0.
    pub stream: StreamNumber,
    /// Whose records these are.
    pub thread: ThreadId,
    /// The number of the chunk, from 0, among those of the thread (records) or among those
    /// of its kind.
    pub sequence: u64,
    /// The thread's time before the first record.
    pub start_time: u64,
    /// The thread's time after the last record.
    pub end_time: u64,
    /// What is in the records.
    pub counts: Counts,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// The payload's checksum.
    pub payload_checksum: u64,
    /// Which generation the path ids are of that the records name, or the superblocks define.
    pub generation: u64,
}

impl ChunkHeader {
    /// The header of a chunk that holds no records.
    #[must_use]
    pub fn of_table(
        kind: ChunkKind,
        sequence: u64,
        generation: u64,
        payload: &[u8],
    ) -> ChunkHeader {
        ChunkHeader {
            kind: Some(kind),
            last_of_thread: false,
            is_in_place: false,
            stream: StreamNumber(0),
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
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64 + self.payload_bytes
    }

    /// Whether this is the header's payload.
    #[must_use]
    pub fn matches(&self, payload: &[u8]) -> bool {
        payload.len() as u64 == self.payload_bytes
            && (self.is_in_place || xxh3_64(payload) == self.payload_checksum)
    }

    /// Whether both describe the same chunk, what the index does not tell aside.
    #[must_use]
    pub fn describes_same(&self, other: &ChunkHeader) -> bool {
        ChunkHeader {
            payload_checksum: other.payload_checksum,
            generation: other.generation,
            ..*self
        } == *other
    }

    /// The flags, which the index has too.
    #[must_use]
    pub fn flags(&self) -> u8 {
        u8::from(self.last_of_thread) * LAST_OF_THREAD + u8::from(self.is_in_place) * IN_PLACE
    }

    /// The header as bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        bytes[..8].copy_from_slice(&CHUNK_MAGIC);
        bytes[8] = self.kind.map_or(0, |kind| kind as u8);
        bytes[9] = self.flags();
        bytes[10..12].copy_from_slice(&self.stream.0.to_le_bytes());
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
    ///
    /// # Errors
    /// If they are none, or were changed.
    pub fn from_bytes(bytes: &[u8; CHUNK_HEADER_BYTES]) -> Result<ChunkHeader, Malformed> {
        let (covered, checksum) = bytes.split_at(CHUNK_HEADER_BYTES - 8);
        if covered[..8] != CHUNK_MAGIC || xxh3_64(covered).to_le_bytes() != checksum {
            return Err(Malformed);
        }
        let mut fields = ByteReader::new(&covered[8..]);
        let kind = ChunkKind::from_u8(fields.byte()?);
        let flags = fields.byte()?;
        let header = ChunkHeader {
            kind,
            last_of_thread: flags & LAST_OF_THREAD != 0,
            is_in_place: flags & IN_PLACE != 0,
            stream: StreamNumber(fields.u16()?),
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
