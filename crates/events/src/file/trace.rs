//! Reads a trace file.

use std::path::Path;

use super::{Function, Module, Problem, ReadError, Summary, ThreadInfo, TraceHeader};
use crate::id::ThreadId;
use crate::sink::Sink;
use crate::superblock::Superblock;

/// A trace file, open for reading. Threads may share it.
#[derive(Debug)]
pub struct Trace {}

impl Trace {
    /// Opens a trace, and rebuilds its index where that is missing.
    ///
    /// # Errors
    /// If the file is no trace, has an unknown version, or cannot be read at all. Damage
    /// after the header is no error: see [`Trace::problems`].
    pub fn open(path: &Path) -> Result<Trace, ReadError> {
        let _ = path;
        todo!()
    }

    /// What could not be read.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        todo!()
    }

    /// What was known when the trace began.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        todo!()
    }

    /// The threads, by id.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadInfo> {
        todo!()
    }

    /// The modules, in the order of their definition.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        todo!()
    }

    /// The traced functions, in the order of their definition.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        todo!()
    }

    /// The superblocks, in the order of their definition.
    #[must_use]
    pub fn superblocks(&self) -> &[Superblock] {
        todo!()
    }

    /// The totals. Of an incomplete trace: of what can be read.
    #[must_use]
    pub fn summary(&self) -> Summary {
        todo!()
    }

    /// Whether the trace was finished, rather than cut off.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        todo!()
    }

    /// The stream of one thread, in program order. Empty where there is no such thread.
    #[must_use]
    pub fn thread(&self, thread: ThreadId) -> ThreadReader<'_> {
        let _ = thread;
        todo!()
    }

    /// All threads, in the order (time, thread, position in the thread).
    #[must_use]
    pub fn merged(&self) -> Merged<'_> {
        todo!()
    }
}

/// Reads the stream of one thread.
#[derive(Debug)]
pub struct ThreadReader<'trace> {
    _trace: &'trace Trace,
}

impl ThreadReader<'_> {
    /// Gives everything to the sink, and returns what could not be read.
    pub fn deliver(self, sink: &mut impl Sink) -> Vec<Problem> {
        let _ = sink;
        todo!()
    }
}

/// Reads all threads in the order of time.
#[derive(Debug)]
pub struct Merged<'trace> {
    _trace: &'trace Trace,
}

impl Merged<'_> {
    /// Gives everything to the sink, and returns what could not be read.
    pub fn deliver(self, sink: &mut impl Sink) -> Vec<Problem> {
        let _ = sink;
        todo!()
    }
}
