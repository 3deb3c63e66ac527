//! Instruments the sources of OpenMP programs: inserts the calls by which a program tells the
//! runtime of instrumented programs (`unspool-dbg-runtime`) what its threads do.
//!
//! As in the original tool, implicit barriers become explicit ones, so that waiting at them
//! can be measured: `end do` gets `nowait`, and a barrier between two calls follows.
//! Intervals are directives in comments: `!$unspool interval NAME` and
//! `!$unspool end interval`, in C `#pragma unspool interval NAME` and so on. Locks are named
//! after the argument of their functions.
//!
//! This crate observes and draws no conclusions: it turns text into text, opens no files and
//! runs no compiler.
//!
//! ```
//! use unspool_openmp_sources::{Language, LeftOut, instrument};
//!
//! let source = "int main(void) {\n#pragma omp barrier\nreturn 0; }\n";
//! let instrumented = instrument(source, "program.c", Language::C, &LeftOut::default())?;
//! assert!(instrumented.contains("dbg_before_barrier"));
//! # Ok::<(), unspool_openmp_sources::InstrumentError>(())
//! ```
#![forbid(unsafe_code)]

mod c;
mod directive;
mod error;
mod events;
mod fortran;
mod instrument;
mod language;
mod left_out;
mod short_procedures;

#[cfg(test)]
mod tests;

pub use error::InstrumentError;
pub use instrument::instrument;
pub use language::Language;
pub use left_out::LeftOut;
