//! The trace file: what is in it, how it is written by the observed threads themselves, and
//! how it is read back even when its end or its middle is damaged.
//!
//! `docs/format.md` draws the file byte by byte.

mod contents;
pub(crate) mod index;
mod module_events;
mod outline;
pub(crate) mod output;
mod read;
mod recovery;
mod shared_output;
mod start;
mod stream_infos;
mod summary;
mod tally;
mod thread_encoder;
mod trace;
mod writer;

pub use outline::Outline;
pub use output::WriteBytes;
pub use read::{Merged, ThreadReader};
pub use stream_infos::StreamInfo;
pub use summary::{Summary, ThreadInfo};
pub use thread_encoder::ThreadEncoder;
pub use trace::Trace;
pub use writer::TraceWriter;
