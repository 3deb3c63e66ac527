//! The file itself: chunks, one after the other, and the end.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use super::Summary;
use super::index::{End, IndexWriter, Totals};
use crate::codec::pack_bytes;
use crate::event::StreamSet;
use crate::problem::WriteError;
use unspool_container::chunk::{ChunkHeader, ChunkKind};

/// The last bytes of a finished file, after the offset of the end chunk.
pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"\xd1UnspEnd";

/// Bytes of the trailer.
pub(crate) const TRAILER_BYTES: usize = 16;

/// How bytes are written to the file: as [`std::io::Write::write`] of a file does it.
pub type WriteBytes = fn(&File, &[u8]) -> io::Result<usize>;

/// An open file, and what is known of its contents.
#[derive(Debug)]
pub(super) struct Output {
    write: WriteBytes,
    /// None once nothing can be written any more, not even an end.
    file: Option<File>,
    /// Why something could not be written.
    error: Option<io::Error>,
    /// Whether that was given up: what follows is not written, but the end is.
    is_full: bool,
    /// Where in the file the trace begins; none for a pipe, from which nothing can be taken back.
    start: Option<u64>,
    offset: u64,
    index: IndexWriter,
    totals: Totals,
    /// The numbers of table chunks.
    sequence: u64,
    /// The streams that are declared.
    declared: StreamSet,
    /// What `finish` returned.
    summary: Option<Summary>,
}

impl Output {
    /// Writes the file header.
    pub(super) fn start(
        write: WriteBytes,
        mut file: File,
        header: &[u8],
    ) -> Result<Output, WriteError> {
        let is_plain = file.metadata().is_ok_and(|facts| facts.is_file());
        let start = file.stream_position().ok().filter(|_| is_plain);
        let mut output = Output {
            write,
            file: Some(file),
            error: None,
            is_full: false,
            start,
            offset: 0,
            index: IndexWriter::default(),
            totals: Totals::default(),
            sequence: 0,
            declared: StreamSet::default(),
            summary: None,
        };
        output.write(header);
        match output.error.take() {
            None => Ok(output),
            Some(source) => Err(WriteError::Write {
                offset: 0,
                dropped_words: 0,
                source,
            }),
        }
    }

    /// Whether something could not be written; then nothing more is.
    pub(super) fn has_failed(&self) -> bool {
        self.file.is_none() || self.is_full
    }

    /// Nothing more will be written but the end.
    pub(super) fn give_up(&mut self) {
        self.is_full = true;
    }

    /// Returns whether all was written.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(file) = &mut self.file else {
            return false;
        };
        let written = write_all(self.write, file, bytes);
        if written.is_ok() {
            self.offset += bytes.len() as u64;
        }
        written.map_err(|error| self.error = Some(error)).is_ok()
    }

    /// Writes a chunk and notes it in the index. Returns whether there was room for it: if not,
    /// the file is as it was before.
    pub(super) fn write_chunk(&mut self, header: &ChunkHeader, payload: &[u8]) -> bool {
        let offset = self.offset;
        let is_written =
            !self.has_failed() && self.write(&header.to_bytes()) && self.write(payload);
        if is_written {
            self.index.push(offset, header);
            self.totals.add(header);
        } else {
            self.take_back(offset);
        }
        is_written
    }

    /// Cuts off what was written from an offset on. What cannot be taken back is the end.
    fn take_back(&mut self, offset: u64) {
        let Some(file) = &mut self.file else { return };
        let place = self.start.map(|start| start + offset);
        let taken_back = place.is_some_and(|place| {
            file.set_len(place).is_ok() && file.seek(SeekFrom::Start(place)).is_ok()
        });
        match taken_back {
            true => self.offset = offset,
            false => self.file = None,
        }
    }

    /// Writes a table, unless it is empty.
    pub(super) fn write_table(&mut self, kind: ChunkKind, generation: u64, table: &[u8]) {
        if !table.is_empty() && !self.has_failed() {
            let payload = pack_bytes(table);
            let header = ChunkHeader::of_table(kind, self.sequence, generation, &payload);
            self.sequence += 1;
            if !self.write_chunk(&header, &payload) {
                // Nothing that follows could be understood.
                self.give_up();
            }
        }
    }

    /// Writes declarations of those of these streams that have none yet.
    pub(super) fn declare(&mut self, streams: StreamSet) {
        let mut table = Vec::new();
        for stream in self.declared.add(streams) {
            stream.declaration().put(&mut table);
        }
        self.write_table(ChunkKind::Streams, 0, &table);
    }

    /// Writes the index and the end. Called again, it only reports again.
    pub(super) fn finish(
        &mut self,
        dropped_words: u64,
        superblocks: u64,
    ) -> Result<Summary, WriteError> {
        if self.summary.is_none() && self.file.is_some() {
            let end_of_chunks = self.offset;
            if !self.write_end(dropped_words, superblocks) {
                self.take_back(end_of_chunks);
            }
            let file_bytes = self.offset;
            let totals = self.totals.summary();
            self.summary = Some(Summary {
                dropped_words,
                superblocks,
                file_bytes,
                ..totals
            });
        }
        match (&self.error, self.summary) {
            (None, Some(summary)) => Ok(Summary {
                dropped_words,
                ..summary
            }),
            (error, _) => Err(WriteError::Write {
                offset: self.offset,
                dropped_words,
                source: copy_of(error.as_ref()),
            }),
        }
    }

    /// Returns whether there was room for it.
    fn write_end(&mut self, dropped_words: u64, superblocks: u64) -> bool {
        let index_offset = self.offset;
        let parts = self.index.take_parts();
        for (sequence, part) in (0..).zip(&parts) {
            let payload = pack_bytes(part);
            let header = ChunkHeader::of_table(ChunkKind::Index, sequence, 0, &payload);
            if !(self.write(&header.to_bytes()) && self.write(&payload)) {
                return false;
            }
        }
        let end_offset = self.offset;
        let index_parts = parts.len() as u64;
        let payload = End {
            index_offset,
            index_parts,
            dropped_words,
            superblocks,
        }
        .to_bytes();
        let header = ChunkHeader::of_table(ChunkKind::End, 0, 0, &payload);
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..8].copy_from_slice(&end_offset.to_le_bytes());
        trailer[8..].copy_from_slice(&TRAILER_MAGIC);
        self.write(&header.to_bytes()) && self.write(&payload) && self.write(&trailer)
    }
}

fn write_all(write: WriteBytes, file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Errors cannot be cloned; their meaning can.
fn copy_of(error: Option<&io::Error>) -> io::Error {
    match error {
        None => io::Error::other("the trace was closed"),
        Some(error) => match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        },
    }
}
