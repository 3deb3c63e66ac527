//! Reads a trace while it is being written.

use std::io::Read;

use crate::file::{Problem, ReadError, Summary, TraceHeader};
use crate::sink::Sink;

/// Reads a trace from a pipe or socket, in the order of time, as far as it is settled: an
/// item is given once every thread that has started and not ended has shown a newer one.
#[derive(Debug)]
pub struct StreamReader<Source> {
    _source: Source,
}

impl<Source: Read> StreamReader<Source> {
    /// Reads the header.
    ///
    /// # Errors
    /// If this is no trace, or has an unknown version.
    pub fn new(source: Source) -> Result<StreamReader<Source>, ReadError> {
        let _ = source;
        todo!()
    }

    /// What was known when the trace began.
    #[must_use]
    pub fn header(&self) -> &TraceHeader {
        todo!()
    }

    /// Gives everything to the sink until the stream ends. Returns the totals and what
    /// could not be read.
    pub fn deliver(self, sink: &mut impl Sink) -> (Summary, Vec<Problem>) {
        let _ = sink;
        todo!()
    }
}
