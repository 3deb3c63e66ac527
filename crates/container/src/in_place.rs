//! Files that are filled in place: mapped into the memory of the process that writes them.
//!
//! ```text
//! file = file header, declarations of streams, block*, zeros
//! ```
//!
//! Header and declarations are written once and take whole pages. A block is a chunk of any length:
//! the writer makes room for it at the end of the file, fills it, and publishes it by writing its
//! header. It may go on changing the payload for as long as it runs; so the payload has no checksum,
//! and a reader takes every word of it as something that was true at some moment. Room that has no
//! header yet is zeros.
//!
//! A page is 4096 bytes. Where blocks take whole pages, too, each can be mapped by itself.

use crate::bytes::{ByteReader, put_varint};
use crate::chunk::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader, ChunkKind, Counts};
use crate::header::{HeaderError, Layout, TraceHeader};
use crate::stream::{Declaration, StreamNumber};
use crate::thread::ThreadId;

/// Bytes of a block's header. Its first eight, the magic, make it valid: a writer stores them last.
pub const HEADER_BYTES: usize = CHUNK_HEADER_BYTES;

const PAGE_BYTES: usize = 4096;

/// The start of a file: its header and its declarations, in whole pages. The first block comes
/// right behind it.
#[must_use]
pub fn start(header: &TraceHeader, streams: &[Declaration]) -> Vec<u8> {
    let mut table = Vec::new();
    streams.iter().for_each(|stream| stream.put(&mut table));
    // A section that is stored as it is.
    let mut payload = Vec::new();
    put_varint(&mut payload, table.len() as u64);
    put_varint(&mut payload, table.len() as u64);
    payload.append(&mut table);
    let declarations = ChunkHeader::of_table(ChunkKind::Streams, 0, 0, &payload);

    let behind = HEADER_BYTES + payload.len();
    let unpadded = header.to_bytes(Layout::InPlace, 0).len() + behind;
    let padding = unpadded.next_multiple_of(PAGE_BYTES) - unpadded;
    let mut bytes = header.to_bytes(Layout::InPlace, padding);
    bytes.extend(declarations.to_bytes());
    bytes.append(&mut payload);
    bytes
}

/// The header of a block of a declared stream. `number` counts the blocks of the stream from 0;
/// `thread` is whose it is, or 0.
#[must_use]
pub fn block_header(
    stream: StreamNumber,
    thread: ThreadId,
    number: u64,
    payload_bytes: u64,
) -> [u8; HEADER_BYTES] {
    let header = ChunkHeader {
        kind: Some(ChunkKind::Block),
        last_of_thread: false,
        is_in_place: true,
        stream,
        thread,
        sequence: number,
        start_time: 0,
        end_time: 0,
        counts: Counts::default(),
        payload_bytes,
        payload_checksum: 0,
        generation: 0,
    };
    header.to_bytes()
}

/// The contents of a file that is filled in place.
#[derive(Debug)]
pub struct InPlace<'a> {
    /// Of which run it is.
    pub header: TraceHeader,
    /// What it declares.
    pub streams: Vec<Declaration>,
    /// Its blocks, in the order of the file.
    pub blocks: Vec<Block<'a>>,
    /// What is none of all this.
    pub gaps: Vec<Gap>,
}

/// A block.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// Whose records it has.
    pub stream: StreamNumber,
    /// The thread that it belongs to, or 0.
    pub thread: ThreadId,
    /// Its number among the blocks of its stream.
    pub number: u64,
    /// Where in the file its header begins.
    pub offset: usize,
    /// What it holds, without the header.
    pub payload: &'a [u8],
}

/// Bytes that make no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Where they begin.
    pub offset: usize,
    /// How many.
    pub length: usize,
    /// What is wrong with them.
    pub what: &'static str,
}

impl<'a> InPlace<'a> {
    /// Reads a file, from bytes that may say anything.
    ///
    /// # Errors
    /// If it is no such file, or its header cannot be used.
    pub fn read(bytes: &'a [u8]) -> Result<InPlace<'a>, HeaderError> {
        let (header, layout, mut rest) = TraceHeader::read(bytes)?;
        if layout != Layout::InPlace {
            return Err(HeaderError::NotInPlace);
        }
        let mut file = InPlace {
            header,
            streams: Vec::new(),
            blocks: Vec::new(),
            gaps: Vec::new(),
        };
        while !rest.is_empty() {
            let offset = bytes.len() - rest.len();
            let length = match chunk_at(rest) {
                Some((header, payload)) => {
                    file.add(&header, payload, offset);
                    HEADER_BYTES + payload.len()
                }
                None if rest.iter().all(|&byte| byte == 0) => break,
                None => {
                    let length = next_chunk(rest);
                    file.note(offset, length, "they are no chunk");
                    length
                }
            };
            rest = &rest[length..];
        }
        Ok(file)
    }

    /// The stream of this name.
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<&Declaration> {
        self.streams.iter().find(|stream| stream.name == name)
    }

    fn add(&mut self, header: &ChunkHeader, payload: &'a [u8], offset: usize) {
        match header.kind {
            Some(ChunkKind::Block) => self.blocks.push(Block {
                stream: header.stream,
                thread: header.thread,
                number: header.sequence,
                offset,
                payload,
            }),
            Some(ChunkKind::Streams) => {
                let declared = header.matches(payload).then(|| stored_section(payload));
                match declared.flatten().map(Declaration::read_all) {
                    Some(Ok(mut declared)) => self.streams.append(&mut declared),
                    _ => self.note(offset, payload.len(), "its declarations are damaged"),
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, offset: usize, length: usize, what: &'static str) {
        self.gaps.push(Gap {
            offset,
            length,
            what,
        });
    }
}

/// The chunk at the start of these bytes, if a whole one is there.
fn chunk_at(bytes: &[u8]) -> Option<(ChunkHeader, &[u8])> {
    let (header, rest) = bytes.split_first_chunk()?;
    let header = ChunkHeader::from_bytes(header).ok()?;
    let length = usize::try_from(header.payload_bytes).ok()?;
    Some((header, rest.get(..length)?))
}

/// How far it is to the next chunk, or the end.
fn next_chunk(bytes: &[u8]) -> usize {
    let mut places = bytes.windows(CHUNK_MAGIC.len()).enumerate().skip(1);
    let found =
        places.find(|(at, magic)| *magic == CHUNK_MAGIC && chunk_at(&bytes[*at..]).is_some());
    found.map_or(bytes.len(), |(at, _)| at)
}

/// The contents of a section that is stored as it is.
fn stored_section(payload: &[u8]) -> Option<&[u8]> {
    let mut bytes = ByteReader::new(payload);
    let length: usize = bytes.number().ok()?;
    bytes.bytes().ok().filter(|stored| stored.len() == length)
}

#[cfg(test)]
mod tests;
