//! Reads the records of a trace: of one thread, or of all threads in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use super::Trace;
use super::contents::read_chunk;
use super::index::IndexEntry;
use crate::handed::Kinds;
use crate::id::ThreadId;
use crate::problem::Problem;
use crate::sink::{Sink, is_given_executions};
use crate::thread_decoder::ThreadDecoder;

impl Trace {
    /// The stream of one thread, in program order. Empty where there is no such thread.
    #[must_use]
    pub fn thread(&self, thread: ThreadId) -> ThreadReader<'_> {
        ThreadReader::new(self, thread)
    }

    /// All threads, in the order (time, thread, position in the thread).
    #[must_use]
    pub fn merged(&self) -> Merged<'_> {
        Merged::new(self)
    }
}

/// Reads the stream of one thread.
#[derive(Debug)]
pub struct ThreadReader<'trace> {
    trace: &'trace Trace,
    chunks: std::slice::Iter<'trace, IndexEntry>,
    decoder: ThreadDecoder,
    /// None: a file has chunks only.
    kinds: Kinds,
}

impl<'trace> ThreadReader<'trace> {
    fn new(trace: &'trace Trace, thread: ThreadId) -> Self {
        let chunks = trace.chunks_of(thread).iter();
        let decoder = ThreadDecoder::new(thread, trace.header().order, 0);
        ThreadReader {
            trace,
            chunks,
            decoder,
            kinds: Kinds::new(trace.header().order),
        }
    }

    /// Leaves out what happened before the chunk in which the thread reached this time: a
    /// quick way to the neighbourhood of a moment.
    #[must_use]
    pub fn from_time(self, time: u64) -> ThreadReader<'trace> {
        let Self {
            trace,
            chunks,
            decoder,
            kinds,
        } = self;
        let chunks = chunks.as_slice();
        let early = chunks
            .iter()
            .take_while(|entry| entry.header.end_time < time)
            .count();
        let chunks = &chunks[early..];
        let sequence = chunks.first().map_or(0, |entry| entry.header.sequence);
        let decoder = ThreadDecoder::new(decoder.thread(), trace.header().order, sequence);
        ThreadReader {
            trace,
            chunks: chunks.iter(),
            decoder,
            kinds,
        }
    }

    /// Leaves out what happened after the chunk in which the thread reached this time.
    #[must_use]
    pub fn until_time(mut self, time: u64) -> ThreadReader<'trace> {
        let chunks = self.chunks.as_slice();
        let late = chunks
            .iter()
            .rev()
            .take_while(|entry| entry.header.start_time > time)
            .count();
        self.chunks = chunks[..chunks.len() - late].iter();
        self
    }

    /// Gives everything to the sink, and returns what could not be read.
    pub fn deliver(mut self, sink: &mut impl Sink) -> Vec<Problem> {
        let with_executions = is_given_executions(sink);
        while self.fill(with_executions) {
            while self.decoder.deliver(None, sink).is_some() {}
        }
        self.decoder.into_problems()
    }

    /// Decodes more, if everything decoded was delivered. Returns whether there is more.
    fn fill(&mut self, with_executions: bool) -> bool {
        while !self.decoder.fill(&self.kinds, with_executions) {
            let Some(entry) = self.chunks.next() else {
                return false;
            };
            match read_chunk(self.trace.file(), entry.offset) {
                Ok((header, payload)) if header.describes_same(&entry.header) => {
                    self.decoder.load(&header, &payload, self.trace.tables());
                }
                Ok(_) => self
                    .decoder
                    .lose(&entry.header, "another chunk is in its place"),
                Err(what) => self.decoder.lose(&entry.header, what),
            }
        }
        true
    }
}

/// Reads all threads in the order (time, thread, position in the thread), with one unpacked
/// chunk per thread in memory.
#[derive(Debug)]
pub struct Merged<'trace> {
    trace: &'trace Trace,
    readers: Vec<ThreadReader<'trace>>,
}

impl<'trace> Merged<'trace> {
    fn new(trace: &'trace Trace) -> Self {
        let readers = trace
            .threads()
            .iter()
            .map(|info| trace.thread(info.thread))
            .collect();
        Merged { trace, readers }
    }

    /// Leaves out all other threads.
    #[must_use]
    pub fn of_threads(mut self, threads: &[ThreadId]) -> Merged<'trace> {
        self.readers
            .retain(|reader| threads.contains(&reader.decoder.thread()));
        self
    }

    /// Leaves out, of each thread, the chunks that lie before or after these times. Only what is
    /// near them is read, and some of what is given lies outside them.
    #[must_use]
    pub fn near_times(mut self, times: RangeInclusive<u64>) -> Merged<'trace> {
        let near = |reader: ThreadReader<'trace>| {
            let reader = reader.from_time(*times.start());
            reader.until_time(*times.end())
        };
        self.readers = self.readers.into_iter().map(near).collect();
        self
    }

    /// Gives everything to the sink, and returns what could not be read.
    pub fn deliver(mut self, sink: &mut impl Sink) -> Vec<Problem> {
        self.trace
            .modules()
            .iter()
            .for_each(|module| sink.module(module));
        self.trace
            .functions()
            .iter()
            .for_each(|function| sink.function(function));
        let with_executions = is_given_executions(sink);
        let mut next = BinaryHeap::new();
        for (index, reader) in self.readers.iter_mut().enumerate() {
            // A thread's first chunk is read when its time has come.
            let first = reader.chunks.as_slice().first();
            next.extend(first.map(|entry| Reverse((entry.header.start_time, index))));
        }
        // The readers are sorted by thread, so their indices stand for the threads.
        while let Some(Reverse((_, index))) = next.pop() {
            let limit = next.peek().map(|Reverse((time, other))| (*time, *other));
            let limit = limit.map(|(time, other)| (time, self.readers[other].decoder.thread()));
            let reader = &mut self.readers[index];
            while reader.fill(with_executions) {
                while reader.decoder.deliver(limit, sink).is_some() {}
                if let Some(time) = reader.decoder.next_time() {
                    next.push(Reverse((time, index)));
                    break;
                }
            }
        }
        self.readers
            .into_iter()
            .flat_map(|reader| reader.decoder.into_problems())
            .collect()
    }
}
