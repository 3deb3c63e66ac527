//! Writes a trace file.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::definitions::Definition;
use super::output::Output;
use super::{Function, Measurement, Module, Summary, ThreadEncoder, WriteError};
use crate::codec::ChunkEncoder;
use crate::event::StreamSet;
use crate::id::ThreadId;
use crate::paths::PathTable;
use crate::superblock::Superblock;
use unspool_container::Order;
use unspool_container::chunk::{ChunkHeader, ChunkKind};
use unspool_container::{Layout, TraceHeader};

/// How many words of raw stream a chunk has, unless it is flushed earlier. With more, the
/// first rows of the tables weigh less; with fewer, the chunk stays in the processor's
/// second-level cache while it is packed.
const CHUNK_WORDS: usize = 1 << 17;

/// The compressor's level, lower is faster. Level 1 makes files a quarter smaller, and takes
/// up to half again as long for all of packing.
const COMPRESSION_LEVEL: i32 = -5;

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

/// What the writer and all its encoders share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) order: Order,
    pub(crate) chunk_words: usize,
    /// None where the trace is discarded.
    output: Option<Mutex<Output>>,
    /// Set once nothing more can be written: after an error, and after the end.
    closed: AtomicBool,
    /// Words that were given to a discarding writer.
    discarded_words: AtomicU64,
    dropped_words: AtomicU64,
    /// Definitions that are not in the file yet.
    definitions: Mutex<Pending>,
    /// Encoders that no thread uses at the moment.
    encoders: Mutex<Vec<ChunkEncoder>>,
}

/// What is defined.
#[derive(Debug)]
struct Pending {
    /// The generation of the superblocks.
    paths: PathGeneration,
    /// How many superblocks there were, in all generations.
    superblock_count: u64,
    tables: Definitions,
}

/// What path ids mean from one time to another.
#[derive(Debug, Clone)]
pub(super) struct PathGeneration {
    /// Its number, from 0.
    pub(super) number: u64,
    /// The superblocks, for counting what records mean. Kept as long as any thread has words of
    /// this generation.
    pub(super) table: Arc<RwLock<PathTable>>,
}

impl PathGeneration {
    fn new(number: u64) -> PathGeneration {
        PathGeneration {
            number,
            table: Arc::new(RwLock::new(PathTable::for_counting())),
        }
    }
}

/// Definitions as bytes.
#[derive(Debug, Default)]
struct Definitions {
    superblocks: Vec<u8>,
    modules: Vec<u8>,
    functions: Vec<u8>,
    measurements: Vec<u8>,
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
        let output = Output::start(file, &header.to_bytes(Layout::Appended, 0))?;
        Ok(Self::new(header, Some(output), chunk_words))
    }

    /// Counts the words it is given, and forgets them. Its summary has no other count.
    #[must_use]
    pub fn discarding(header: &TraceHeader) -> TraceWriter {
        Self::new(header, None, CHUNK_WORDS)
    }

    fn new(header: &TraceHeader, output: Option<Output>, chunk_words: usize) -> TraceWriter {
        let shared = Shared {
            order: header.order,
            chunk_words: chunk_words.clamp(1, crate::codec::MAX_CHUNK_WORDS),
            output: output.map(Mutex::new),
            closed: AtomicBool::new(false),
            discarded_words: AtomicU64::new(0),
            dropped_words: AtomicU64::new(0),
            definitions: Mutex::new(Pending {
                paths: PathGeneration::new(0),
                superblock_count: 0,
                tables: Definitions::default(),
            }),
            encoders: Mutex::new(Vec::new()),
        };
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
    pub fn define_function(&self, function: &Function) {
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

impl Shared {
    /// Whether words are only counted.
    pub(super) fn discards(&self) -> bool {
        self.output.is_none()
    }

    /// Counts discarded words.
    pub(super) fn discard(&self, words: usize) {
        self.discarded_words
            .fetch_add(words as u64, Ordering::Relaxed);
    }

    /// Counts lost words.
    pub(super) fn count_dropped(&self, words: usize) {
        self.dropped_words
            .fetch_add(words as u64, Ordering::Relaxed);
    }

    /// Whether nothing can be written any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Writes a chunk of records, and before it the definitions that it may need. Returns false
    /// where there is no room for it and a smaller one may be tried.
    pub(super) fn write_records(
        &self,
        header: &ChunkHeader,
        payload: &[u8],
        streams: StreamSet,
        try_smaller: bool,
    ) -> bool {
        let Some(output) = &self.output else {
            return true;
        };
        let mut output = lock(output);
        if self.is_closed() {
            self.count_dropped(header.counts.words as usize);
            return true;
        }
        output.declare(streams);
        self.write_definitions(&mut output, |_| {});
        if output.write_chunk(header, payload) {
            return true;
        }
        if try_smaller && !output.has_failed() {
            return false;
        }
        output.give_up();
        self.closed.store(true, Ordering::Relaxed);
        self.count_dropped(header.counts.words as usize);
        true
    }

    /// Writes what is defined so far; what is defined after it comes behind `then`.
    fn write_definitions(&self, output: &mut Output, then: impl FnOnce(&mut Pending)) {
        let mut pending = lock(&self.definitions);
        let generation = pending.paths.number;
        let tables = std::mem::take(&mut pending.tables);
        then(&mut pending);
        drop(pending);
        output.write_table(ChunkKind::Modules, 0, &tables.modules);
        output.write_table(ChunkKind::Functions, 0, &tables.functions);
        output.write_table(ChunkKind::Superblocks, generation, &tables.superblocks);
        output.write_table(ChunkKind::Measurements, 0, &tables.measurements);
    }

    /// The generation of path ids that superblocks are added to.
    pub(super) fn generation(&self) -> PathGeneration {
        lock(&self.definitions).paths.clone()
    }

    /// Takes an encoder that is free, or makes one.
    pub(super) fn take_encoder(&self) -> ChunkEncoder {
        let free = lock(&self.encoders).pop();
        free.unwrap_or_else(|| ChunkEncoder::new(Some(COMPRESSION_LEVEL)))
    }

    /// Gives an encoder back.
    pub(super) fn return_encoder(&self, encoder: ChunkEncoder) {
        lock(&self.encoders).push(encoder);
    }
}

/// A panic elsewhere does not stop the writer.
fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
