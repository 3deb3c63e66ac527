//! The files between what runs inside OpenMP programs and the analyses.
//!
//! The collector maps a file and counts in it, so that whatever ends the process, the file
//! holds what was counted until then. It is a file of streams
//! ([`unspool_container::in_place`]) whose records are fixed fields in place. [`layout`]
//! says where every field is; both ends use it. [`ProcessRecord`] is what a reader gets.
//! Programs that were instrumented in their source leave the files of the [`original`]
//! analyser.
//!
//! A file is read as untrusted input: what can be read is given, what cannot is a
//! [`Problem`]. This crate opens no files and knows no analysis.
#![forbid(unsafe_code)]

mod construct_kind;
pub mod layout;
pub mod original;
mod process;
mod read;

pub use construct_kind::ConstructKind;
pub use process::{
    ClockKind, Construct, Module, Problem, ProcessRecord, Runtimes, Span, ThreadTime,
};
pub use read::ReadError;
