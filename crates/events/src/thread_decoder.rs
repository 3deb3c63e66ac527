//! Turns the chunks of one thread into batches.

use crate::batch::{Batch, Limit};
use crate::codec::{DecodedChunk, decode_chunk};
use crate::event::Loss;
use crate::expand::{Expander, RecordKind};
use crate::handed::{Handed, Kinds};
use crate::id::ThreadId;
use crate::paths::OwnedPath;
use crate::problem::Problem;
use crate::sink::Sink;
use crate::tables::Tables;
use unspool_container::Order;
use unspool_container::chunk::ChunkHeader;

/// A batch is filled until it has this many items; then they go to the sink while they are
/// still in the processor's cache.
const BATCH_ITEMS: usize = 2048;

/// Decodes one thread. Whoever owns it brings the chunks.
#[derive(Debug)]
pub(crate) struct ThreadDecoder {
    thread: ThreadId,
    expander: Expander,
    chunk: DecodedChunk,
    kinds: Vec<RecordKind<OwnedPath>>,
    /// Records that were never packed; their kinds are kept with the thread.
    handed: Option<Handed>,
    batch: Batch,
    /// Whether stamps say what may depend on other threads.
    says_dependence: bool,
    /// Whether a chunk, or what stands for one, begins with the next record.
    is_at_start: bool,
    /// The number of the chunk that should come next.
    sequence: u64,
    problems: Vec<Problem>,
}

impl ThreadDecoder {
    /// Starts before the thread's chunk number `sequence`.
    pub(crate) fn new(thread: ThreadId, order: Order, sequence: u64) -> ThreadDecoder {
        ThreadDecoder {
            thread,
            expander: Expander::new(order),
            chunk: DecodedChunk::default(),
            kinds: Vec::new(),
            handed: None,
            batch: Batch::default(),
            says_dependence: order == Order::LineAtomic,
            is_at_start: true,
            sequence,
            problems: Vec::new(),
        }
    }

    /// Which thread.
    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// The time of the next item, if one is decoded.
    pub(crate) fn next_time(&self) -> Option<u64> {
        self.batch.next_time()
    }

    /// Takes the next chunk. A chunk that cannot be unpacked is noted and has no items.
    pub(crate) fn load(&mut self, header: &ChunkHeader, payload: &[u8], tables: &Tables) {
        if header.sequence > self.sequence {
            self.note_missing_chunks(header.sequence - self.sequence, header.start_time);
        }
        self.sequence = header.sequence.saturating_add(1);
        self.expander.restart(header.start_time);
        self.is_at_start = true;
        match decode_chunk(payload, header.counts.words) {
            Ok(chunk) => {
                let paths = tables.paths.of(header.generation);
                self.kinds.clear();
                self.kinds.extend(
                    chunk
                        .distinct()
                        .map(|header| RecordKind::new(header, paths, &tables.streams).into_owned()),
                );
                self.chunk = chunk;
            }
            Err(_) => self.lose(header, "its records cannot be unpacked"),
        }
    }

    /// Takes the next records, which follow those before without a gap.
    pub(crate) fn load_handed(&mut self, handed: Handed) {
        self.handed = Some(handed);
        self.is_at_start = true;
    }

    /// Takes note of a chunk that could not be read.
    pub(crate) fn lose(&mut self, header: &ChunkHeader, what: &'static str) {
        self.sequence = header.sequence.saturating_add(1);
        let (time, words) = (header.start_time, header.counts.words);
        self.problems.push(Problem::LostChunk {
            thread: self.thread,
            time,
            words,
            what,
        });
        self.mark_loss(time, words);
        self.expander.restart(header.end_time);
    }

    fn note_missing_chunks(&mut self, chunks: u64, time: u64) {
        self.problems.push(Problem::MissingChunks {
            thread: self.thread,
            chunks,
            time,
        });
        self.mark_loss(time, 0);
    }

    /// Lets the sink know.
    fn mark_loss(&mut self, time: u64, words: u64) {
        let reason = "a chunk of the trace is damaged or missing".to_owned();
        self.batch.push_event(time, Loss { words, reason }.into());
    }

    /// Decodes more, if everything decoded was delivered. Returns whether there are items
    /// to deliver; if not, the next chunk is needed. `handed_kinds` are those of records that were
    /// handed over; `with_executions` is whether the sink takes executions as they are.
    pub(crate) fn fill(&mut self, handed_kinds: &Kinds, with_executions: bool) -> bool {
        if self.batch.next_time().is_some() {
            return true;
        }
        self.expander
            .keep_executions(self.says_dependence && with_executions);
        self.batch.clear();
        if std::mem::take(&mut self.is_at_start) {
            self.batch.note_dependence();
        }
        while self.batch.items() < BATCH_ITEMS
            && let Some((kind, words)) = self.chunk.next_record()
        {
            self.expander
                .expand(&self.kinds[kind], words, &mut self.batch);
        }
        if let Some(handed) = &mut self.handed {
            while self.batch.items() < BATCH_ITEMS
                && let Some((kind, words)) = handed.next_record()
            {
                self.expander
                    .expand(handed_kinds.get(kind), words, &mut self.batch);
            }
        }
        if self.batch.items() == 0 {
            // A thread that has ended keeps no memory.
            self.chunk = DecodedChunk::default();
            self.handed = None;
        }
        self.batch.next_time().is_some()
    }

    /// Gives decoded items to the sink, as long as they come before the limit. Stops early
    /// after the creation of a thread, and returns which.
    pub(crate) fn deliver(
        &mut self,
        limit: Option<Limit>,
        sink: &mut impl Sink,
    ) -> Option<ThreadId> {
        let may_run_ahead = self.says_dependence && !sink.needs_order_of_time();
        self.batch.deliver(self.thread, limit, may_run_ahead, sink)
    }

    /// What could not be read.
    pub(crate) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.extend(self.expander.problems(self.thread));
        self.problems
    }
}
