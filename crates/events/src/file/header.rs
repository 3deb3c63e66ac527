//! The start of a trace file: which program, which order, which tool.

use crate::order::Order;

/// What is known when a trace begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeader {
    /// The order that the trace's times hold.
    pub order: Order,
    /// Bytes of memory whose order is kept as one (a power of two); 0 where that has no meaning.
    pub granule: u32,
    /// The path of the program.
    pub program: Vec<u8>,
    /// Its arguments, the program's own name first.
    pub arguments: Vec<Vec<u8>>,
    /// The observer's options, as names and values.
    pub options: Vec<(String, String)>,
    /// The kernel's id of the process.
    pub process: u32,
    /// The observed process that started this one, if any.
    pub parent_process: Option<u32>,
    /// When the trace began, in nanoseconds since 1970 (UTC).
    pub start_unix_ns: u64,
    /// The version of the tool that wrote the trace.
    pub tool_version: String,
}
