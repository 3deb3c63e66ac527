//! The files and figures of the original analyser: M. A. Gilmendinov, "Performance debugging
//! of OpenMP programs", Moscow State University, 2010.
//!
//! An instrumented program leaves one trace for each thread (`trace.N.mtr`), in which each
//! event stands once for each interval around it, and the strings that describe its events
//! (`cstrings.csf`). From these come a protocol and a readable trace.

mod analysis;
mod context_string;
mod options;
mod protocol;
mod readable;
mod trace;

pub use analysis::{Analysis, Point, Selection};
pub use context_string::{ContextString, ContextStringError, ContextStrings};
pub use options::{Mode, Options, OptionsError};
pub use readable::readable_trace;
pub use trace::{Event, Interval, Item, Statistics, ThreadTrace, TraceProblem};

#[cfg(test)]
mod tests;
