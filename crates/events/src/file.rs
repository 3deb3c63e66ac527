//! The trace file: what is in it, how it is written by the observed threads themselves, and
//! how it is read back even when its end or its middle is damaged.
//!
//! `docs/format.md` draws the file byte by byte.

mod header;
mod problem;
mod summary;
mod table;
mod thread_encoder;
mod trace;
mod writer;

pub use header::TraceHeader;
pub use problem::{Problem, ReadError, WriteError};
pub use summary::{Summary, ThreadInfo};
pub use table::{Function, Module};
pub use thread_encoder::ThreadEncoder;
pub use trace::{Merged, ThreadReader, Trace};
pub use writer::TraceWriter;
