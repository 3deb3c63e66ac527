//! The trace file: what is in it, how it is written by the observed threads themselves, and
//! how it is read back even when its end or its middle is damaged.
//!
//! `docs/format.md` draws the file byte by byte.

mod contents;
mod definitions;
pub(crate) mod index;
mod module_events;
mod modules;
mod outline;
pub(crate) mod output;
mod problem;
mod read;
mod recovery;
pub(crate) mod streams;
mod summary;
pub(crate) mod tables;
mod tally;
pub(crate) mod thread_decoder;
mod thread_encoder;
mod trace;
mod writer;

pub use modules::{Function, Measurement, Module};
pub use outline::Outline;
pub use problem::{Problem, ReadError, WriteError};
pub use read::{Merged, ThreadReader};
pub use streams::{StreamInfo, Understanding};
pub use summary::{Summary, ThreadInfo};
pub use thread_encoder::ThreadEncoder;
pub use trace::Trace;
pub use writer::TraceWriter;
