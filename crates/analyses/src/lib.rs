//! Draws conclusions from what happened in a program: one module for each question.
//!
//! You supply the events, in the order of time of all threads: from a recorded trace with
//! [`unspool_events::Trace::merged`], or from anywhere else. Every analysis is a
//! [`unspool_events::Sink`] that yields a report when it has seen everything.
//!
//! **Invariant:** an analysis does not know who observed the program, or where its report
//! will be shown.
//!
//! ```
//! use unspool_analyses::IncrementReplay;
//! use unspool_events::{Access, AccessFlags, AccessKind, Sink, ThreadId};
//!
//! let mut replay = IncrementReplay::new(0x1000, 0);
//! let flags = AccessFlags::ATOMIC;
//! let read = Access {
//!     time: 1, pc: 0x40, address: 0x1000, size: 8,
//!     kind: AccessKind::Read, flags: flags.with(AccessFlags::FIRST),
//! };
//! let write = Access { kind: AccessKind::Write, flags, ..read };
//! replay.accesses(ThreadId(0), &[read, write]);
//! assert_eq!(replay.finish().threads[0].increments, 1);
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod call_paths;
mod clock;
pub mod heap;
pub mod increments;
pub mod locks;
pub mod races;
mod reordering;
pub mod values;

pub use call_paths::{CallSite, ContextId};
pub use heap::{HeapBlock, HeapStep};
pub use increments::{IncrementReplay, IncrementReport};
pub use locks::{LockCheck, LockReport};
pub use races::{RaceCheck, RaceReport};
pub use values::{ValueCheck, ValueReport};
