//! Reads a trace while it is being written.

use std::io::{ErrorKind, Read};

use crate::file::index::{End, Totals};
use crate::file::output::TRAILER_BYTES;
use crate::file::{Summary, ThreadInfo};
use crate::merge::Merge;
use crate::problem::{Problem, ReadError};
use crate::sink::Sink;
use unspool_container::FIXED_BYTES;
use unspool_container::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind};
use unspool_container::{HeaderError, Layout, TraceHeader};

/// Reads a trace from a pipe or socket, in the order (time, thread, position), as far as it
/// is settled: an item is given once every thread that has started and not ended has shown
/// a newer one.
///
/// Chunks wait packed until their time has come, so memory grows with the number of
/// threads and with how far they are apart, not with the length of the trace.
///
/// A thread has started when its creation was seen (the event
/// [`crate::SyncOperation::ThreadCreate`] of another thread) or its first chunk arrived, and has
/// ended when its last chunk has been given. A created thread that never writes anything
/// holds everything back until the stream ends.
#[derive(Debug)]
pub struct StreamReader<Source> {
    source: Source,
    header: TraceHeader,
    offset: u64,
    merge: Merge,
    totals: Totals,
    end: Option<End>,
    problems: Vec<Problem>,
}

/// What came of reading a trace to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The totals.
    pub summary: Summary,
    /// The threads, by id.
    pub threads: Vec<ThreadInfo>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl<Source: Read> StreamReader<Source> {
    /// Reads the header.
    ///
    /// # Errors
    /// If this is no trace, or has an unknown version.
    pub fn new(mut source: Source) -> Result<StreamReader<Source>, ReadError> {
        let mut fixed = [0; FIXED_BYTES];
        source
            .read_exact(&mut fixed)
            .map_err(|source| read_error(source, 0))?;
        let check = TraceHeader::check_fixed(&fixed)?;
        let offset = FIXED_BYTES as u64;
        let mut fields = Vec::new();
        let read = source
            .by_ref()
            .take(check.length as u64)
            .read_to_end(&mut fields);
        read.map_err(|source| ReadError::Read { offset, source })?;
        let (header, layout) = TraceHeader::from_fields(&fields, &check)?;
        if layout == Layout::InPlace {
            return Err(ReadError::InPlace);
        }
        Ok(StreamReader {
            source,
            merge: Merge::new(header.order),
            header,
            offset: offset + check.length as u64,
            totals: Totals::default(),
            end: None,
            problems: Vec::new(),
        })
    }

    /// What was known when the trace began.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Gives everything to the sink until the stream ends. Modules and functions are given
    /// as they arrive, always before the events that name them.
    pub fn deliver(mut self, sink: &mut impl Sink) -> Delivered {
        loop {
            match self.read_chunk() {
                Ok(Some((header, payload))) => {
                    self.totals.add(&header);
                    self.take_chunk(header, payload, sink);
                    self.merge.deliver(sink);
                    sink.settled();
                }
                Ok(None) => break,
                Err(what) => {
                    // A pipe cannot be read again; the next chunk could be searched for,
                    // but only damage by the pipe itself could make that useful.
                    self.problems.push(Problem::Damaged {
                        offset: self.offset,
                        length: 0,
                        what,
                    });
                    break;
                }
            }
        }
        if self.end.is_none() {
            self.problems.push(Problem::NoIndex {
                what: "the stream was cut off",
            });
        }
        let mut problems = self.problems;
        problems.extend(self.merge.finish(sink));
        Delivered {
            summary: Summary {
                dropped_words: self.end.map_or(0, |end| end.dropped_words),
                superblocks: self.merge.tables.superblocks.len() as u64,
                file_bytes: self.offset,
                ..self.totals.summary()
            },
            threads: self.totals.threads(),
            problems,
        }
    }

    /// Reads a chunk; none at the end of the stream.
    fn read_chunk(&mut self) -> Result<Option<(ChunkHeader, Vec<u8>)>, &'static str> {
        if self.end.is_some() {
            // Only the trailer follows; it is read so that the writer is not cut off.
            let mut trailer = Vec::new();
            let _ = (&mut self.source)
                .take(TRAILER_BYTES as u64)
                .read_to_end(&mut trailer);
            self.offset += trailer.len() as u64;
            return Ok(None);
        }
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(_) => return Err("the stream cannot be read"),
        }
        let header = ChunkHeader::from_bytes(&bytes).map_err(|_| "a chunk header is damaged")?;
        let mut payload = Vec::new();
        let read = self
            .source
            .by_ref()
            .take(header.payload_bytes)
            .read_to_end(&mut payload);
        read.map_err(|_| "the stream cannot be read")?;
        if (payload.len() as u64) < header.payload_bytes {
            return Err("the stream was cut off inside a chunk");
        }
        self.offset += header.chunk_bytes();
        Ok(Some((header, payload)))
    }

    fn take_chunk(&mut self, header: ChunkHeader, payload: Vec<u8>, sink: &mut impl Sink) {
        let intact = header.matches(&payload);
        let what = match header.kind {
            Some(ChunkKind::Records) => {
                self.merge.take_chunk(header, intact.then_some(payload));
                return;
            }
            _ if !intact => Err("its checksum is wrong"),
            Some(ChunkKind::End) => End::from_bytes(&payload)
                .map(|end| self.end = Some(end))
                .map_err(|_| "it is malformed"),
            _ => self.merge.tables.add(&header, &payload),
        };
        if let Err(what) = what {
            let length = header.chunk_bytes();
            self.problems.push(Problem::Damaged {
                offset: self.offset - length,
                length,
                what,
            });
        }
        let tables = &mut self.merge.tables;
        tables
            .modules
            .drain(..)
            .for_each(|module| sink.module(&module));
        tables
            .functions
            .drain(..)
            .for_each(|function| sink.function(&function));
    }
}

fn read_error(source: std::io::Error, offset: u64) -> ReadError {
    match source.kind() {
        ErrorKind::UnexpectedEof => HeaderError::NotATrace.into(),
        _ => ReadError::Read { offset, source },
    }
}
