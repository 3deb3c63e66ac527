//! Writes a trace file.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use unspool_container::{Layout, TraceHeader};

use super::output::{Output, WriteBytes};
use super::shared_output::{PathGeneration, Pending, Shared, lock};
use super::{Summary, ThreadEncoder};
use crate::definitions::Definition;
use crate::id::ThreadId;
use crate::modules::{Measurement, Module, TracedFunction};
use crate::problem::WriteError;
use crate::superblock::Superblock;

/// How many words of raw stream a chunk has, unless it is flushed earlier. With more, the
/// first rows of the tables weigh less; with fewer, the chunk stays in the processor's
/// second-level cache while it is packed.
const CHUNK_WORDS: usize = 1 << 17;

/// Writes a trace. Clones write to the same trace.
///
/// It never seeks, so that the trace may go into a pipe. Writing never fails visibly before
/// [`TraceWriter::finish`]: after an error everything is counted and dropped, and the
/// observed program runs on. (A process that writes to a pipe must ignore `SIGPIPE`, as
/// Rust programs do, or the end of the reader is its own end.)
///
/// Dropping it without [`TraceWriter::finish`] writes nothing: a forked child drops its
/// parent's.
#[derive(Debug, Clone)]
pub struct TraceWriter {
    shared: Arc<Shared>,
}

impl TraceWriter {
    /// Creates the file, or empties it where it exists.
    ///
    /// # Errors
    /// If the file cannot be created or its header cannot be written.
    pub fn create(path: &Path, header: &TraceHeader) -> Result<TraceWriter, WriteError> {
        let file = File::create(path).map_err(|source| WriteError::Create {
            path: path.to_owned(),
            source,
        })?;
        Self::from_file(file, header)
    }

    /// Writes to a file, pipe or socket that is open already, from its present position. It
    /// must be in blocking mode.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn from_file(file: File, header: &TraceHeader) -> Result<TraceWriter, WriteError> {
        Self::with_chunk_words(file, header, CHUNK_WORDS)
    }

    /// Like [`TraceWriter::from_file`], with another way of writing bytes to the file: from within an
    /// observed process that takes more than one call.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn through(
        write: WriteBytes,
        file: File,
        header: &TraceHeader,
    ) -> Result<TraceWriter, WriteError> {
        let output = Output::start(write, file, &header.to_bytes(Layout::Appended, 0))?;
        Ok(Self::new(header, Some(output), CHUNK_WORDS))
    }

    /// Like [`TraceWriter::from_file`], with chunks of about `chunk_words` words of raw
    /// stream instead of 131,072.
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn with_chunk_words(
        file: File,
        header: &TraceHeader,
        chunk_words: usize,
    ) -> Result<TraceWriter, WriteError> {
        let write: WriteBytes = |mut file, bytes| file.write(bytes);
        let output = Output::start(write, file, &header.to_bytes(Layout::Appended, 0))?;
        Ok(Self::new(header, Some(output), chunk_words))
    }

    /// Counts the words it is given, and forgets them. Its summary has no other count.
    #[must_use]
    pub fn discarding(header: &TraceHeader) -> TraceWriter {
        Self::new(header, None, CHUNK_WORDS)
    }

    fn new(header: &TraceHeader, output: Option<Output>, chunk_words: usize) -> TraceWriter {
        let shared = Shared::new(header.order, output, chunk_words);
        TraceWriter {
            shared: Arc::new(shared),
        }
    }

    /// Adds a superblock. Call it before the first record of one of its paths is appended.
    pub fn define_superblock(&self, superblock: &Superblock) {
        let mut pending = lock(&self.shared.definitions);
        pending.superblock_count += 1;
        if self.shared.output.is_some() {
            superblock.put(&mut pending.tables.superblocks);
            let paths = Arc::clone(&pending.paths.table);
            drop(pending);
            let mut paths = paths.write().unwrap_or_else(PoisonError::into_inner);
            paths.add(superblock);
        }
    }

    /// All path ids are free to be given out anew: superblocks that are added from now on are of
    /// a new generation. What a thread has appended, and appends until it calls
    /// [`ThreadEncoder::enter_generation`], is of an earlier one.
    pub fn begin_generation(&self) {
        let shared = &*self.shared;
        let begin = |pending: &mut Pending| {
            pending.paths = PathGeneration::new(pending.paths.number + 1);
        };
        match &shared.output {
            None => begin(&mut lock(&shared.definitions)),
            Some(output) => shared.write_definitions(&mut lock(output), begin),
        }
    }

    /// Adds a module.
    pub fn define_module(&self, module: &Module) {
        if self.shared.output.is_some() {
            module.put(&mut lock(&self.shared.definitions).tables.modules);
        }
    }

    /// Adds a traced function.
    pub fn define_function(&self, function: &TracedFunction) {
        if self.shared.output.is_some() {
            function.put(&mut lock(&self.shared.definitions).tables.functions);
        }
    }

    /// Adds a measurement of the observer's.
    pub fn add_measurement(&self, measurement: &Measurement) {
        if self.shared.output.is_some() {
            measurement.put(&mut lock(&self.shared.definitions).tables.measurements);
        }
    }

    /// The encoder of one thread. Ask once for each thread.
    #[must_use]
    pub fn thread(&self, thread: ThreadId) -> ThreadEncoder {
        ThreadEncoder::new(Arc::clone(&self.shared), thread)
    }

    /// Counts words that the observer lost before they reached an encoder.
    pub fn count_dropped(&self, words: u64) {
        self.shared
            .dropped_words
            .fetch_add(words, Ordering::Relaxed);
    }

    /// Writes the index and the end of the file. What is appended later is dropped.
    ///
    /// # Errors
    /// If anything could not be written since the trace began.
    pub fn finish(&self) -> Result<Summary, WriteError> {
        let shared = &*self.shared;
        let superblocks = lock(&shared.definitions).superblock_count;
        let Some(output) = &shared.output else {
            let raw_words = shared.discarded_words.load(Ordering::Relaxed);
            let dropped_words = shared.dropped_words.load(Ordering::Relaxed);
            return Ok(Summary {
                raw_words,
                dropped_words,
                superblocks,
                ..Summary::default()
            });
        };
        let mut output = lock(output);
        shared.write_definitions(&mut output, |_| {});
        shared.closed.store(true, Ordering::Relaxed);
        output.finish(shared.dropped_words.load(Ordering::Relaxed), superblocks)
    }
}
