//! What a trace holds, in numbers.

use crate::id::ThreadId;

/// The totals of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Threads that have at least one chunk.
    pub threads: u64,
    /// Memory accesses.
    pub accesses: u64,
    /// Executions of accessing instructions.
    pub instructions: u64,
    /// Executions of instructions of any kind, on recorded paths.
    pub executed: u64,
    /// Events.
    pub events: u64,
    /// Words of raw stream that went into the trace.
    pub raw_words: u64,
    /// Words that were lost, for whatever reason.
    pub dropped_words: u64,
    /// Superblocks defined.
    pub superblocks: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// What the index says of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Which thread.
    pub thread: ThreadId,
    /// Its number of chunks.
    pub chunks: u64,
    /// The thread's time before its first item.
    pub start_time: u64,
    /// The thread's time after its last item.
    pub end_time: u64,
    /// Memory accesses.
    pub accesses: u64,
    /// Executions of accessing instructions.
    pub instructions: u64,
    /// Events.
    pub events: u64,
    /// Words of raw stream.
    pub raw_words: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Whether the thread's stream was finished, rather than cut off.
    pub finished: bool,
}
