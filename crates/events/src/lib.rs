//! The vocabulary in which observers speak to analyses, and the file that keeps it.
//!
//! An observer (the engine, the collector, the compiler's runtime) produces, for each
//! thread, a stream of [raw records](raw); the [writer](file) packs them into
//! a trace file; the reader turns them back into [`Access`]es and [`Event`]s, in the
//! order of one thread or merged over all of them.
//!
//! **Invariant:** nothing here knows who observes or who analyses.
#![forbid(unsafe_code)]

pub mod access;
mod batch;
mod bytes;
mod clock;
mod codec;
pub mod event;
mod event_words;
mod expand;
pub mod file;
pub mod id;
mod operand;
pub mod order;
mod paths;
pub mod raw;
mod sink;
mod stream;
pub mod superblock;

pub use access::{Access, AccessFlags, AccessKind};
pub use event::{Event, SyncOperation};
pub use event_words::EventError;
pub use file::{
    Function, Merged, Module, Problem, ReadError, Summary, ThreadEncoder, ThreadInfo, ThreadReader,
    Trace, TraceHeader, TraceWriter, WriteError,
};
pub use id::{FunctionId, ModuleId, PathId, ThreadId};
pub use order::Order;
pub use sink::Sink;
pub use stream::StreamReader;
