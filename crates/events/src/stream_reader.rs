//! Reads a trace while it is being written.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io::{ErrorKind, Read};

use crate::batch::Limit;
use crate::file::index::{End, Totals};
use crate::file::tables::Tables;
use crate::file::thread_decoder::ThreadDecoder;
use crate::file::{Problem, ReadError, Summary};
use crate::id::ThreadId;
use crate::sink::Sink;
use unspool_container::FIXED_BYTES;
use unspool_container::Order;
use unspool_container::chunk::{CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind};
use unspool_container::{HeaderError, Layout, TraceHeader};

/// Reads a trace from a pipe or socket, in the order (time, thread, position), as far as it
/// is settled: an item is given once every thread that has started and not ended has shown
/// a newer one.
///
/// Chunks wait packed until their time has come, so memory grows with the number of
/// threads and with how far they are apart, not with the length of the trace.
///
/// A thread has started when its creation was seen (the event
/// [`crate::SyncOperation::ThreadCreate`] of another thread) or its first chunk arrived, and has
/// ended when its last chunk has been given. A created thread that never writes anything
/// holds everything back until the stream ends.
#[derive(Debug)]
pub struct StreamReader<Source> {
    source: Source,
    header: TraceHeader,
    offset: u64,
    tables: Tables,
    threads: BTreeMap<ThreadId, LiveThread>,
    /// Threads of which everything has been given.
    ended: BTreeSet<ThreadId>,
    totals: Totals,
    end: Option<End>,
    /// The latest time that was given.
    given_time: u64,
    problems: Vec<Problem>,
}

/// A thread that has started.
#[derive(Debug)]
struct LiveThread {
    decoder: ThreadDecoder,
    /// Chunks that have arrived and are not unpacked yet; without payload if damaged.
    chunks: VecDeque<(ChunkHeader, Option<Vec<u8>>)>,
    /// No item that is still to arrive is earlier than this.
    reached: u64,
    /// Whether the last chunk has arrived.
    finished: bool,
    /// Whether it was noted that its items come too late.
    late: bool,
}

impl<Source: Read> StreamReader<Source> {
    /// Reads the header.
    ///
    /// # Errors
    /// If this is no trace, or has an unknown version.
    pub fn new(mut source: Source) -> Result<StreamReader<Source>, ReadError> {
        let mut fixed = [0; FIXED_BYTES];
        source
            .read_exact(&mut fixed)
            .map_err(|source| read_error(source, 0))?;
        let check = TraceHeader::check_fixed(&fixed)?;
        let offset = FIXED_BYTES as u64;
        let mut fields = Vec::new();
        let read = source
            .by_ref()
            .take(check.length as u64)
            .read_to_end(&mut fields);
        read.map_err(|source| ReadError::Read { offset, source })?;
        let (header, layout) = TraceHeader::from_fields(&fields, &check)?;
        if layout == Layout::InPlace {
            return Err(ReadError::InPlace);
        }
        Ok(StreamReader {
            source,
            header,
            offset: offset + check.length as u64,
            tables: Tables::default(),
            threads: BTreeMap::new(),
            ended: BTreeSet::new(),
            totals: Totals::default(),
            end: None,
            given_time: 0,
            problems: Vec::new(),
        })
    }

    /// What was known when the trace began.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// Gives everything to the sink until the stream ends. Modules and functions are given
    /// as they arrive, always before the events that name them. Returns the totals and what
    /// could not be read.
    pub fn deliver(mut self, sink: &mut impl Sink) -> (Summary, Vec<Problem>) {
        loop {
            match self.read_chunk() {
                Ok(Some((header, payload))) => {
                    self.totals.add(&header);
                    self.take_chunk(header, payload, sink);
                    self.deliver_settled(sink);
                }
                Ok(None) => break,
                Err(what) => {
                    // A pipe cannot be read again; the next chunk could be searched for,
                    // but only damage by the pipe itself could make that useful.
                    self.problems.push(Problem::Damaged {
                        offset: self.offset,
                        length: 0,
                        what,
                    });
                    break;
                }
            }
        }
        if self.end.is_none() {
            self.problems.push(Problem::NoIndex {
                what: "the stream was cut off",
            });
        }
        for thread in self.threads.values_mut() {
            thread.finished = true;
        }
        self.deliver_settled(sink);
        let mut problems = self.problems;
        problems.extend(self.tables.streams.problems());
        for thread in self.threads.into_values() {
            problems.extend(thread.decoder.into_problems());
        }
        let summary = Summary {
            dropped_words: self.end.map_or(0, |end| end.dropped_words),
            superblocks: self.tables.superblocks.len() as u64,
            file_bytes: self.offset,
            ..self.totals.summary()
        };
        (summary, problems)
    }

    /// Reads a chunk; none at the end of the stream.
    fn read_chunk(&mut self) -> Result<Option<(ChunkHeader, Vec<u8>)>, &'static str> {
        if self.end.is_some() {
            // Only the trailer follows; it is read so that the writer is not cut off.
            let mut trailer = Vec::new();
            let _ = self.source.read_to_end(&mut trailer);
            self.offset += trailer.len() as u64;
            return Ok(None);
        }
        let mut bytes = [0; CHUNK_HEADER_BYTES];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(_) => return Err("the stream cannot be read"),
        }
        let header = ChunkHeader::from_bytes(&bytes).map_err(|_| "a chunk header is damaged")?;
        let mut payload = Vec::new();
        let read = self
            .source
            .by_ref()
            .take(header.payload_bytes)
            .read_to_end(&mut payload);
        read.map_err(|_| "the stream cannot be read")?;
        if (payload.len() as u64) < header.payload_bytes {
            return Err("the stream was cut off inside a chunk");
        }
        self.offset += header.chunk_bytes();
        Ok(Some((header, payload)))
    }

    fn take_chunk(&mut self, header: ChunkHeader, payload: Vec<u8>, sink: &mut impl Sink) {
        let intact = header.matches(&payload);
        let what = match header.kind {
            Some(ChunkKind::Records) => {
                self.queue_chunk(header, intact.then_some(payload));
                return;
            }
            _ if !intact => Err("its checksum is wrong"),
            Some(ChunkKind::End) => End::from_bytes(&payload)
                .map(|end| self.end = Some(end))
                .map_err(|_| "it is malformed"),
            _ => self.tables.add(&header, &payload),
        };
        if let Err(what) = what {
            let length = header.chunk_bytes();
            self.problems.push(Problem::Damaged {
                offset: self.offset - length,
                length,
                what,
            });
        }
        self.tables
            .modules
            .drain(..)
            .for_each(|module| sink.module(&module));
        self.tables
            .functions
            .drain(..)
            .for_each(|function| sink.function(&function));
    }

    /// Puts a chunk in the queue of its thread; without payload if it is damaged.
    fn queue_chunk(&mut self, header: ChunkHeader, payload: Option<Vec<u8>>) {
        self.ended.remove(&header.thread);
        let thread = live_thread(&mut self.threads, header.thread, self.header.order);
        thread.reached = thread.reached.max(header.end_time);
        thread.finished |= header.last_of_thread;
        thread.chunks.push_back((header, payload));
    }

    /// Gives what is settled.
    fn deliver_settled(&mut self, sink: &mut impl Sink) {
        let order = self.header.order;
        let step = u64::from(order.advances_by_itself());
        let mut next: BinaryHeap<Reverse<Limit>> = BinaryHeap::new();
        next.extend(
            self.threads
                .iter()
                .filter_map(|(id, thread)| thread.next(*id, step)),
        );
        while let Some(Reverse((time, id))) = next.pop() {
            let thread = live_thread(&mut self.threads, id, order);
            if !thread.fill(&self.tables) {
                if thread.finished {
                    self.end_thread(id);
                    continue;
                }
                // Everything else would be later than what this thread may still bring.
                break;
            }
            let limit = next.peek().map(|Reverse(limit)| *limit);
            let first = thread.decoder.next_time().unwrap_or(time);
            if limit.is_some_and(|limit| (first, id) > limit) {
                // Later than its chunk header promised.
                next.push(Reverse((first, id)));
                continue;
            }
            if first < self.given_time && order != Order::None && !thread.late {
                thread.late = true;
                self.problems.push(Problem::LateThread {
                    thread: id,
                    time: first,
                });
            }
            // Where the next place in the order is the same one, nothing is given in this turn.
            if limit.is_none_or(|limit| (first, id) < limit) {
                self.given_time = self.given_time.max(first);
            }
            let created = thread.decoder.deliver(limit, sink);
            if thread.decoder.next_time().is_none() {
                // What is left of its chunk comes before what its queue promises.
                thread.fill(&self.tables);
            }
            match thread.next(id, step) {
                None => self.end_thread(id),
                more => next.extend(more),
            }
            let is_new =
                |child: &ThreadId| !self.threads.contains_key(child) && !self.ended.contains(child);
            if let Some(child) = created.filter(is_new) {
                let thread = live_thread(&mut self.threads, child, order);
                thread.reached = first;
                next.extend(thread.next(child, step));
            }
        }
    }
}

impl<Source> StreamReader<Source> {
    /// Everything of a thread has been given: what is left of it is that it was there.
    fn end_thread(&mut self, id: ThreadId) {
        if let Some(thread) = self.threads.remove(&id) {
            self.problems.extend(thread.decoder.into_problems());
            self.ended.insert(id);
        }
    }
}

/// The thread with this id, which starts now if it has not yet.
fn live_thread(
    threads: &mut BTreeMap<ThreadId, LiveThread>,
    id: ThreadId,
    order: Order,
) -> &mut LiveThread {
    threads.entry(id).or_insert_with(|| LiveThread {
        decoder: ThreadDecoder::new(id, order, 0),
        chunks: VecDeque::new(),
        reached: 0,
        finished: false,
        late: false,
    })
}

impl LiveThread {
    /// The earliest place in the order that its next item can have; none if it has ended.
    fn next(&self, id: ThreadId, step: u64) -> Option<Reverse<Limit>> {
        let bound = |time: u64| time.saturating_add(step);
        let first_chunk = self
            .chunks
            .front()
            .map(|(header, _)| bound(header.start_time));
        let still_to_come = (!self.finished).then(|| bound(self.reached));
        let time = self.decoder.next_time().or(first_chunk).or(still_to_come);
        time.map(|time| Reverse((time, id)))
    }

    /// Decodes more, if everything decoded was given. Returns whether there is more.
    fn fill(&mut self, tables: &Tables) -> bool {
        while !self.decoder.fill() {
            match self.chunks.pop_front() {
                None => return false,
                Some((header, Some(payload))) => self.decoder.load(&header, &payload, tables),
                Some((header, None)) => self.decoder.lose(&header, "its checksum is wrong"),
            }
        }
        true
    }
}

fn read_error(source: std::io::Error, offset: u64) -> ReadError {
    match source.kind() {
        ErrorKind::UnexpectedEof => HeaderError::NotATrace.into(),
        _ => ReadError::Read { offset, source },
    }
}
