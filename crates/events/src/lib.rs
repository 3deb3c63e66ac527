//! The vocabulary in which observers speak to analyses, and the file that keeps it.
//!
//! An observer (the engine, the collector, the compiler's runtime) produces, for each
//! thread, a stream of [raw records](raw); a [`TraceWriter`] packs them into a trace file;
//! a [`Trace`] turns them back into [`Access`]es and [`Event`]s, in the order of one thread
//! or merged over all of them, and a [`StreamReader`] does so while they are still being
//! written. `docs/format.md` draws the file.
//!
//! You supply raw records and superblocks when writing, and a [`Sink`] when reading. What
//! records mean for locks, caches or loops is not known here.
//!
//! **Invariant:** nothing here knows who observes or who analyses.
//!
//! ```
//! use unspool_events::*;
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("trace");
//! let header = TraceHeader {
//!     order: Order::None,
//!     granule: 0,
//!     program: b"/bin/true".to_vec(),
//!     arguments: vec![b"true".to_vec()],
//!     options: Vec::new(),
//!     process: 1,
//!     parent_process: None,
//!     start_unix_ns: 0,
//!     tool_version: "0.1.0".to_owned(),
//! };
//! let writer = TraceWriter::create(&path, &header)?;
//! let mut thread = writer.thread(ThreadId(0));
//! let mut words = Vec::new();
//! Event::from(ThreadEvent::Start { os_thread: 1, parent: None }).encode(&mut words);
//! Event::from(ThreadEvent::End).encode(&mut words);
//! thread.append(&words);
//! thread.finish();
//! writer.finish()?;
//!
//! #[derive(Default)]
//! struct Count(u64);
//! impl Sink for Count {
//!     fn event(&mut self, _: ThreadId, time: u64, _: &Event) {
//!         self.0 += 1;
//!         assert_eq!(time, self.0);
//!     }
//! }
//! let trace = Trace::open(&path)?;
//! let mut count = Count::default();
//! let problems = trace.merged().deliver(&mut count);
//! assert!(trace.problems().is_empty() && problems.is_empty());
//! assert_eq!(count.0, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod access;
mod batch;
pub mod cache_control;
mod clock;
mod codec;
mod definitions;
pub mod event;
mod executions;
mod expand;
pub mod file;
mod handed;
pub mod id;
mod live;
mod merge;
mod modules;
mod operand;
mod paths;
mod plain_access;
mod problem;
pub mod raw;
mod record_sink;
mod sink;
mod stream_reader;
mod streams;
pub mod superblock;
mod tables;
mod tee;
mod thread_decoder;

pub use unspool_container::stream;
pub use unspool_container::{HeaderError, Layout, Order, ThreadId, TraceHeader};

pub use access::{Access, AccessFlags, AccessKind};
pub use cache_control::{Fence, LineOperation};
pub use event::{
    CallOrder, Carries, Dependence, Event, EventError, InstructionEvent, KnownStream, Loss,
    Mapping, MemoryEffect, ProcessEvent, Span, SyncOperation, Synchronisation, SystemCall,
    ThreadEvent, call_order,
};
pub use executions::{Execution, Executions};
pub use file::{
    Merged, Outline, StreamInfo, Summary, ThreadEncoder, ThreadInfo, ThreadReader, Trace,
    TraceWriter, WriteBytes,
};
pub use id::{FunctionId, ModuleId, PathId};
pub use live::{Conclusion, LiveAnalysis, Seen};
pub use modules::{CalledBack, Measurement, Module, TracedFunction};
pub use plain_access::PlainAccess;
pub use problem::{Problem, ReadError, WriteError};
pub use record_sink::{RecordSink, ThreadRecords, Verdict};
pub use sink::Sink;
pub use stream_reader::{Delivered, StreamReader};
pub use streams::Understanding;
pub use tee::Tee;
