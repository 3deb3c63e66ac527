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

/// The name of a thread's trace. Those of one run begin alike: with `trace`, unless somebody has
/// given them another name.
#[must_use]
pub fn trace_name(run: &str, thread: u64) -> String {
    format!("{run}.{thread}.mtr")
}

/// The run and the thread that a trace's name tells.
#[must_use]
pub fn run_and_thread(name: &str) -> Option<(&str, u64)> {
    let (run, thread) = name.strip_suffix(".mtr")?.rsplit_once('.')?;
    Some((run, thread.parse().ok()?))
}

#[cfg(test)]
mod tests;
