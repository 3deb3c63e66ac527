//! Packs the raw stream of one thread into chunks.

use std::sync::{Arc, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::shared_output::{PathGeneration, Shared};
use super::tally::tally;
use crate::codec::{ChunkEncoder, EncodedRecords, Portion};
use crate::id::ThreadId;
use crate::raw::{Header, SpecialKind};
use unspool_container::Order;
use unspool_container::chunk::{ChunkHeader, ChunkKind};
use unspool_container::stream::StreamNumber;

/// Where a disk is full, chunks are made smaller down to about this.
const SMALLEST_CHUNK_WORDS: usize = 1 << 8;

/// Takes the raw stream of one thread. Belongs to the thread that it observes.
///
/// Dropping it without [`ThreadEncoder::finish`] writes nothing.
#[derive(Debug)]
pub struct ThreadEncoder {
    shared: Arc<Shared>,
    thread: ThreadId,
    /// Words that are not in a chunk yet.
    words: Vec<u64>,
    /// The thread's time before the first of them.
    time: u64,
    /// The number of the next chunk.
    sequence: u64,
    packed: Vec<u8>,
    /// What the path ids in the words mean.
    paths: PathGeneration,
}

impl ThreadEncoder {
    pub(super) fn new(shared: Arc<Shared>, thread: ThreadId) -> ThreadEncoder {
        let paths = shared.generation();
        ThreadEncoder {
            shared,
            thread,
            words: Vec::new(),
            time: 0,
            sequence: 0,
            packed: Vec::new(),
            paths,
        }
    }

    /// Appends whole raw records (see [`crate::raw`]). A stamp or values record may come
    /// in an earlier call than the record it belongs to.
    pub fn append(&mut self, words: &[u64]) {
        if self.shared.discards() {
            self.shared.discard(words.len());
        } else if self.shared.is_closed() {
            self.shared.count_dropped(words.len());
        } else {
            self.words.extend_from_slice(words);
            if self.words.len() > self.shared.chunk_words {
                self.write_chunks(self.shared.chunk_words, false);
            }
        }
    }

    /// The thread's time where it was last counted, and how many words have come since.
    /// `None` if it is never counted, because nothing is kept.
    #[must_use]
    pub fn counted(&self) -> Option<(u64, usize)> {
        let kept = !self.shared.discards() && !self.shared.is_closed();
        kept.then_some((self.time, self.words.len()))
    }

    /// Ends the chunk and writes it, so that a reader of the file or pipe sees everything
    /// appended so far. (Stamps and values wait for the record that they belong to.)
    pub fn flush(&mut self) {
        if !self.words.is_empty() {
            self.write_chunks(0, false);
        }
    }

    /// What is appended from now on names path ids of the generation that has begun last (see
    /// [`super::TraceWriter::begin_generation`]). Does nothing if it did so before.
    pub fn enter_generation(&mut self) {
        let latest = self.shared.generation();
        if latest.number != self.paths.number {
            self.flush();
            self.paths = latest;
        }
    }

    /// Writes what is left, and marks the thread's stream as finished.
    pub fn finish(mut self) {
        if !self.shared.discards() {
            self.write_chunks(0, true);
        }
    }

    /// Writes chunks until at most `keep` words are left; if this is the `end`, at least
    /// one chunk, which says so.
    fn write_chunks(&mut self, keep: usize, end: bool) {
        let words = std::mem::take(&mut self.words);
        let mut rest = &words[..];
        while rest.len() > keep || end {
            let (encoded, last) = self.write_chunk(rest, end);
            rest = &rest[encoded.words..];
            if encoded.words == 0 || last {
                // Half a record is not what was asked for, and cannot be understood.
                self.shared.count_dropped(rest.len() - encoded.held_back);
                rest = &rest[..encoded.held_back];
                break;
            }
        }
        let written = words.len() - rest.len();
        let kept = rest.len();
        self.words = words;
        self.words.copy_within(written.., 0);
        self.words.truncate(kept);
    }

    /// Packs and writes one chunk: a smaller one where the disk has no room for a whole one.
    /// Returns what went into it, and whether it was the last.
    fn write_chunk(&mut self, words: &[u64], end: bool) -> (EncodedRecords, bool) {
        let shared = Arc::clone(&self.shared);
        let mut encoder = shared.take_encoder();
        if self.sequence == 0 {
            self.time = start_time(words, shared.order);
        }
        let mut wanted_words = shared.chunk_words;
        let written = loop {
            let try_smaller = wanted_words > SMALLEST_CHUNK_WORDS;
            let portion = Portion {
                wanted_words,
                hold_back: !end,
            };
            if let Some(written) = self.try_chunk(&mut encoder, words, portion, try_smaller) {
                break written;
            }
            wanted_words /= 4;
        };
        shared.return_encoder(encoder);
        written
    }

    /// Nothing where there is no room, and a smaller chunk is to be tried.
    fn try_chunk(
        &mut self,
        encoder: &mut ChunkEncoder,
        words: &[u64],
        portion: Portion,
        try_smaller: bool,
    ) -> Option<(EncodedRecords, bool)> {
        let end = !portion.hold_back;
        self.packed.clear();
        let encoded = encoder.encode(words, portion, &mut self.packed);
        let last = end && (encoded.words == 0 || encoded.words == words.len());
        if encoded.words == 0 && !last {
            return Some((encoded, last));
        }
        let paths = &self.paths.table;
        let paths = paths.read().unwrap_or_else(PoisonError::into_inner);
        let order = self.shared.order;
        let (counts, end_time, streams) = tally(encoder, encoded, words, &paths, order, self.time);
        drop(paths);
        let header = ChunkHeader {
            kind: Some(ChunkKind::Records),
            last_of_thread: last,
            is_in_place: false,
            stream: StreamNumber(0),
            thread: self.thread,
            sequence: self.sequence,
            start_time: self.time,
            end_time,
            counts,
            payload_bytes: self.packed.len() as u64,
            payload_checksum: xxh3_64(&self.packed),
            generation: self.paths.number,
        };
        let is_done = self
            .shared
            .write_records(&header, &self.packed, streams, try_smaller);
        is_done.then(|| {
            self.sequence += 1;
            self.time = end_time;
            (encoded, last)
        })
    }
}

/// The time before the first record of a thread: just before the first stamp, if the stream
/// starts with one, so that a reader knows when the thread becomes interesting.
fn start_time(words: &[u64], order: Order) -> u64 {
    let Some((&header, &[time, ..])) = words.split_first() else {
        return 0;
    };
    match Header::decode(header) {
        Header::Special {
            kind: Some(SpecialKind::Stamp),
            argument: 0,
            words: 1,
        } => time.saturating_sub(u64::from(order.advances_by_itself())),
        _ => 0,
    }
}
