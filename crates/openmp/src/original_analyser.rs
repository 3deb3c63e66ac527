//! The figures and files of the original analyser: M. A. Gilmendinov, "Performance debugging
//! of OpenMP programs", Moscow State University, 2010.
//!
//! From the traces of an instrumented program, and the strings that describe its events
//! ([`unspool_openmp_record::original`]), come its protocol and a readable trace.

mod analysis;
mod options;
mod protocol;
mod readable;
mod selection;

pub use analysis::{Analysis, Point};
pub use options::{Mode, Options, OptionsError};
pub use readable::{Totals, readable_trace};
pub use selection::Selection;

#[cfg(test)]
mod tests;
