//! The file between the collector, which runs inside OpenMP programs, and the analyses.
//!
//! The collector maps the file and counts in it, so that whatever ends the process, the file
//! holds what was counted until then. It therefore consists of fixed fields in place, not of
//! a stream: a header and then blocks of equal size, each owned by one thread. [`layout`]
//! says where every field is; both ends use it. [`ProcessRecord`] is what a reader gets.
//!
//! A file is read as untrusted input: what can be read is given, what cannot is a
//! [`Problem`]. This crate opens no files and knows no analysis.
#![forbid(unsafe_code)]

pub mod kind;
pub mod layout;
pub mod original;
mod process;
mod read;

pub use kind::Kind;
pub use process::{ClockKind, Construct, Module, Problem, ProcessRecord, Runtimes, Span};
pub use read::ReadError;
