//! The files of the original analyser: M. A. Gilmendinov, "Performance debugging of OpenMP
//! programs", Moscow State University, 2010.
//!
//! An instrumented program leaves one trace for each thread (`trace.N.mtr`, a
//! [`ThreadTrace`]), in which each event stands once for each interval around it, and the
//! strings that describe its events (`cstrings.csf`, [`ContextStrings`]).

mod context_string;
mod thread_trace;

pub use context_string::{ContextString, ContextStringError, ContextStrings};
pub use thread_trace::{Event, Interval, Item, Statistics, ThreadTrace, TraceProblem};

#[cfg(test)]
mod tests;
