//! Writes a trace file.

use std::fs::File;
use std::path::Path;

use super::{Function, Module, Summary, ThreadEncoder, TraceHeader, WriteError};
use crate::id::ThreadId;
use crate::superblock::Superblock;

/// Writes a trace. Clones write to the same trace.
///
/// Dropping it without [`TraceWriter::finish`] writes nothing: a forked child drops its
/// parent's.
#[derive(Debug, Clone)]
pub struct TraceWriter {}

impl TraceWriter {
    /// Creates the file, or empties it where it exists.
    ///
    /// # Errors
    /// If the file cannot be created or its header cannot be written.
    pub fn create(path: &Path, header: &TraceHeader) -> Result<TraceWriter, WriteError> {
        let _ = (path, header);
        todo!()
    }

    /// Writes to a file, pipe or socket that is open already, from its present position.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn from_file(file: File, header: &TraceHeader) -> Result<TraceWriter, WriteError> {
        let _ = (file, header);
        todo!()
    }

    /// Counts the words it is given, and forgets them.
    #[must_use]
    pub fn discarding(header: &TraceHeader) -> TraceWriter {
        let _ = header;
        todo!()
    }

    /// Adds a superblock. Call it before the first record of one of its paths is appended.
    pub fn define_superblock(&self, superblock: &Superblock) {
        let _ = superblock;
        todo!()
    }

    /// Adds a module.
    pub fn define_module(&self, module: &Module) {
        let _ = module;
        todo!()
    }

    /// Adds a traced function.
    pub fn define_function(&self, function: &Function) {
        let _ = function;
        todo!()
    }

    /// The encoder of one thread. Ask once for each thread.
    #[must_use]
    pub fn thread(&self, thread: ThreadId) -> ThreadEncoder {
        let _ = thread;
        todo!()
    }

    /// Counts words that the observer lost before they reached an encoder.
    pub fn count_dropped(&self, words: u64) {
        let _ = words;
        todo!()
    }

    /// Writes the index and the end of the file. What is appended later is dropped.
    ///
    /// # Errors
    /// If anything could not be written since the trace began.
    pub fn finish(&self) -> Result<Summary, WriteError> {
        todo!()
    }
}
