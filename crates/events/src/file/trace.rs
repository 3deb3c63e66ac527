//! Reads a trace file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use super::contents::{Contents, find_contents};
use super::index::{IndexEntry, Totals};
use super::start::read_start;
use super::stream_infos::{StreamInfo, stream_infos};
use super::{Summary, ThreadInfo};
use crate::id::ThreadId;
use crate::modules::{Measurement, Module, TracedFunction};
use crate::problem::{Problem, ReadError};
use crate::superblock::Superblock;
use crate::tables::Tables;
use unspool_container::chunk::ChunkKind;
use unspool_container::{Layout, TraceHeader};

/// A trace file, open for reading. Threads may share it.
#[derive(Debug)]
pub struct Trace {
    file: File,
    header: TraceHeader,
    layout: Layout,
    contents: Contents,
    /// The chunks with records, by thread.
    chunks: BTreeMap<ThreadId, Vec<IndexEntry>>,
    totals: Totals,
    streams: Vec<StreamInfo>,
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
        let start = read_start(&file)?;
        let mut contents = find_contents(&file, &start, file_bytes);
        let streams = stream_infos(&contents);
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
            header: start.header,
            layout: start.layout,
            contents,
            chunks,
            totals,
            streams,
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

    /// The streams that the file declares, by number, and what belongs to no declared one.
    #[must_use]
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// How the file is filled.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The modules, in the order of their definition.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.contents.tables.modules
    }

    /// The traced functions, in the order of their definition.
    #[must_use]
    pub fn functions(&self) -> &[TracedFunction] {
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

    /// Whether the trace was finished, rather than cut off. A file that is filled in place has no
    /// end that could be missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.layout == Layout::InPlace || self.contents.end.is_some()
    }

    /// What gives records a meaning.
    pub(super) fn tables(&self) -> &Tables {
        &self.contents.tables
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
