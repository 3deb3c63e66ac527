//! Reads a trace file.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::chunk::ChunkKind;
use super::contents::{Contents, find_contents};
use super::header::FIXED_BYTES;
use super::index::{IndexEntry, Totals};
use super::{
    Function, Measurement, Merged, Module, Problem, ReadError, Summary, ThreadInfo, ThreadReader,
    TraceHeader,
};
use crate::id::ThreadId;
use crate::paths::Generations;
use crate::superblock::Superblock;

/// A trace file, open for reading. Threads may share it.
#[derive(Debug)]
pub struct Trace {
    file: File,
    header: TraceHeader,
    contents: Contents,
    /// The chunks with records, by thread.
    chunks: BTreeMap<ThreadId, Vec<IndexEntry>>,
    totals: Totals,
    file_bytes: u64,
}

impl Trace {
    /// Opens a trace, and rebuilds its index where that is missing.
    ///
    /// # Errors
    /// If the file is no trace, has an unknown version, or cannot be read at all. Damage
    /// after the header is no error: see [`Trace::problems`].
    pub fn open(path: &Path) -> Result<Trace, ReadError> {
        let open_error = |source| ReadError::Open {
            path: path.to_owned(),
            source,
        };
        Trace::from_file(File::open(path).map_err(open_error)?)
    }

    /// The same of a file that is open, whatever its position. It must be one that can be read
    /// at any place: for pipes there is [`crate::StreamReader`].
    ///
    /// # Errors
    /// As for [`Trace::open`].
    pub fn from_file(file: File) -> Result<Trace, ReadError> {
        let metadata = file.metadata();
        let file_bytes = metadata
            .map_err(|source| ReadError::Read { offset: 0, source })?
            .len();
        let (header, header_bytes) = read_header(&file, file_bytes)?;
        let mut contents = find_contents(&file, header_bytes, file_bytes);
        let mut totals = Totals::default();
        let mut chunks: BTreeMap<ThreadId, Vec<IndexEntry>> = BTreeMap::new();
        for entry in std::mem::take(&mut contents.chunks) {
            totals.add(&entry.header);
            if entry.header.kind == Some(ChunkKind::Records) {
                chunks.entry(entry.header.thread).or_default().push(entry);
            }
        }
        for chunks in chunks.values_mut() {
            chunks.sort_by_key(|entry| entry.header.sequence);
        }
        Ok(Trace {
            file,
            header,
            contents,
            chunks,
            totals,
            file_bytes,
        })
    }

    /// What could not be read while the trace was opened. Damage inside chunks is noticed,
    /// and reported, by those who read them.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.contents.problems
    }

    /// What was known when the trace began.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The threads, by id.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadInfo> {
        self.totals.threads()
    }

    /// The modules, in the order of their definition.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.contents.tables.modules
    }

    /// The traced functions, in the order of their definition.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.contents.tables.functions
    }

    /// The superblocks, in the order of their definition.
    #[must_use]
    pub fn superblocks(&self) -> &[Superblock] {
        &self.contents.tables.superblocks
    }

    /// What the observer measured of its own run. An incomplete trace has none.
    #[must_use]
    pub fn measurements(&self) -> &[Measurement] {
        &self.contents.tables.measurements
    }

    /// The totals. Of an incomplete trace: of what can be read.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let end = &self.contents.end;
        Summary {
            dropped_words: end.map_or(0, |end| end.dropped_words),
            superblocks: self.contents.tables.superblocks.len() as u64,
            file_bytes: self.file_bytes,
            ..self.totals.summary()
        }
    }

    /// Whether the trace was finished, rather than cut off.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.contents.end.is_some()
    }

    /// The stream of one thread, in program order. Empty where there is no such thread.
    #[must_use]
    pub fn thread(&self, thread: ThreadId) -> ThreadReader<'_> {
        ThreadReader::new(self, thread)
    }

    /// All threads, in the order (time, thread, position in the thread).
    #[must_use]
    pub fn merged(&self) -> Merged<'_> {
        Merged::new(self)
    }

    /// The paths of all superblocks.
    pub(super) fn paths(&self) -> &Generations {
        &self.contents.tables.paths
    }

    /// The chunks with records of a thread, in order.
    pub(super) fn chunks_of(&self, thread: ThreadId) -> &[IndexEntry] {
        self.chunks.get(&thread).map_or(&[], |chunks| chunks)
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

/// Reads the file header, and returns its length, too.
pub(super) fn read_header(file: &File, file_bytes: u64) -> Result<(TraceHeader, u64), ReadError> {
    let read = |bytes: &mut [u8], offset| {
        file.read_exact_at(bytes, offset)
            .map_err(|source| match source.kind() {
                std::io::ErrorKind::UnexpectedEof => ReadError::DamagedHeader {
                    what: "it is cut off",
                },
                _ => ReadError::Read { offset, source },
            })
    };
    let mut fixed = [0; FIXED_BYTES];
    if file_bytes < 8 {
        return Err(ReadError::NotATrace);
    }
    read(&mut fixed, 0)?;
    let (length, checksum) = TraceHeader::fields_length(&fixed)?;
    let end = FIXED_BYTES as u64 + length as u64;
    if end > file_bytes {
        return Err(ReadError::DamagedHeader {
            what: "it is cut off",
        });
    }
    let mut fields = vec![0; length];
    read(&mut fields, FIXED_BYTES as u64)?;
    Ok((TraceHeader::from_fields(&fields, checksum)?, end))
}
