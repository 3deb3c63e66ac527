//! What the writer of a trace and the encoders of its threads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use unspool_container::Order;
use unspool_container::chunk::{ChunkHeader, ChunkKind};

use super::output::Output;
use crate::codec::{ChunkEncoder, MAX_CHUNK_WORDS};
use crate::event::StreamSet;
use crate::paths::PathTable;

/// The compressor's level, lower is faster. Level 1 makes files a quarter smaller, and takes
/// up to half again as long for all of packing.
const COMPRESSION_LEVEL: i32 = -5;

/// What the writer and all its encoders share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) order: Order,
    pub(super) chunk_words: usize,
    /// None where the trace is discarded.
    pub(super) output: Option<Mutex<Output>>,
    /// Set once nothing more can be written: after an error, and after the end.
    pub(super) closed: AtomicBool,
    /// Words that were given to a discarding writer.
    pub(super) discarded_words: AtomicU64,
    pub(super) dropped_words: AtomicU64,
    /// Definitions that are not in the file yet.
    pub(super) definitions: Mutex<Pending>,
    /// Encoders that no thread uses at the moment.
    encoders: Mutex<Vec<ChunkEncoder>>,
}

/// What is defined.
#[derive(Debug)]
pub(super) struct Pending {
    /// The generation of the superblocks.
    pub(super) paths: PathGeneration,
    /// How many superblocks there were, in all generations.
    pub(super) superblock_count: u64,
    pub(super) tables: Definitions,
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
    pub(super) fn new(number: u64) -> PathGeneration {
        PathGeneration {
            number,
            table: Arc::new(RwLock::new(PathTable::for_counting())),
        }
    }
}

/// Definitions as bytes.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) superblocks: Vec<u8>,
    pub(super) modules: Vec<u8>,
    pub(super) functions: Vec<u8>,
    pub(super) measurements: Vec<u8>,
}

impl Shared {
    /// With chunks of about so many words. Without an output everything is discarded.
    pub(super) fn new(order: Order, output: Option<Output>, chunk_words: usize) -> Shared {
        Shared {
            order,
            chunk_words: chunk_words.clamp(1, MAX_CHUNK_WORDS),
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
        }
    }

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
    pub(super) fn write_definitions(&self, output: &mut Output, then: impl FnOnce(&mut Pending)) {
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
pub(super) fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
