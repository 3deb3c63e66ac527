//! What can go wrong with a trace file.

use std::path::PathBuf;

use unspool_container::HeaderError;

use crate::id::ThreadId;

/// A trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file could not be created.
    #[error("cannot create the trace file {path}")]
    Create {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file could not be written. Everything after this offset is lost.
    #[error("cannot write to the trace at offset {offset}; {dropped_words} words were dropped")]
    Write {
        /// How many bytes had been written before.
        offset: u64,
        /// How many words of raw stream were lost, here and later.
        dropped_words: u64,
        /// Why.
        source: std::io::Error,
    },
}

/// A trace could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be opened.
    #[error("cannot open the trace file {path}")]
    Open {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Reading failed.
    #[error("cannot read the trace at offset {offset}")]
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The start of the file cannot be used.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The file is not one that is read from its start to its end.
    #[error(
        "this trace is filled in place by the process that writes it, and has no events to merge"
    )]
    InPlace,
}

/// Something in a trace could not be read; the rest could.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The trace has no readable index: its process was killed, or its end was cut off or
    /// damaged. The index was rebuilt.
    #[error("the trace was not finished, or {what}; its index was rebuilt")]
    NoIndex {
        /// What is wrong with the end of the file.
        what: &'static str,
    },
    /// Bytes that belong to no readable chunk.
    #[error("{length} bytes at offset {offset} are damaged: {what}")]
    Damaged {
        /// Where they start.
        offset: u64,
        /// How many.
        length: u64,
        /// What is wrong with them.
        what: &'static str,
    },
    /// Chunks of a thread are missing.
    #[error("{chunks} chunks of thread {} are missing before time {time}", thread.0)]
    MissingChunks {
        /// Whose.
        thread: ThreadId,
        /// How many.
        chunks: u64,
        /// The thread's time where it continues.
        time: u64,
    },
    /// A chunk of a thread is there, but cannot be read.
    #[error("a chunk of thread {} from time {time} on, with {words} words, is lost: {what}", thread.0)]
    LostChunk {
        /// Whose.
        thread: ThreadId,
        /// The thread's time before it.
        time: u64,
        /// How many words of raw stream it had.
        words: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Records name paths that no superblock of the trace has.
    #[error("{records} records of thread {} name unknown code", thread.0)]
    UnknownPath {
        /// Whose.
        thread: ThreadId,
        /// How many records.
        records: u64,
    },
    /// Records that contradict their superblock, or that this version does not know.
    #[error("{records} records of thread {} cannot be understood", thread.0)]
    BadRecord {
        /// Whose.
        thread: ThreadId,
        /// How many records.
        records: u64,
    },
    /// A stream has a schema that this version does not know: its records are passed over.
    #[error(
        "the stream `{stream}` has schema version {found}; this program reads versions up to {known}"
    )]
    UnknownSchema {
        /// Which stream.
        stream: String,
        /// The version in the file.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// A thread appeared in a stream later than its time; its items were given late.
    #[error("thread {} appeared at time {time}, after items with later times were given", thread.0)]
    LateThread {
        /// Which thread.
        thread: ThreadId,
        /// Its time when it appeared.
        time: u64,
    },
    /// So much waited for a thread that an analysis of a running program came to its end: it is
    /// about what happened until then.
    #[error(
        "the analysis ended before the program did: {bytes} bytes of records waited for thread {}, which had come to time {time}",
        thread.0
    )]
    TooMuchWaits {
        /// For which thread.
        thread: ThreadId,
        /// Where it was.
        time: u64,
        /// How much waited.
        bytes: u64,
    },
}

/// Why a chunk cannot be read.
pub(crate) type Damage = &'static str;
