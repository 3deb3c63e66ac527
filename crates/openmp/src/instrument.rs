//! Instrumentation of sources: inserts the calls by which a program tells the runtime of
//! instrumented programs what its threads do.
//!
//! As in the original tool, implicit barriers become explicit ones, so that waiting at them
//! can be measured: `end do` gets `nowait`, and a barrier between two calls follows.
//! Intervals are directives in comments: `!$unspool interval NAME` and
//! `!$unspool end interval`, in C `#pragma unspool interval NAME` and so on. Locks are named
//! after the argument of their functions.

mod c;
mod directive;
mod events;
mod fortran;

#[cfg(test)]
mod tests;

use std::path::Path;

/// A language and its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Fortran in free form.
    FreeFortran,
    /// Fortran in fixed form.
    FixedFortran,
    /// C or C++.
    C,
}

impl Language {
    /// The language of a file, by its name's ending.
    #[must_use]
    pub fn of(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "f90" | "f95" | "f03" | "f08" => Some(Language::FreeFortran),
            "f" | "for" | "ftn" | "f77" => Some(Language::FixedFortran),
            "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" => Some(Language::C),
            _ => None,
        }
    }
}

/// Why a source cannot be instrumented.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct InstrumentError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

/// The instrumented source. `file` is the name that context strings give it.
///
/// # Errors
/// If a construct does not end, or ends without having begun.
pub fn instrument(source: &str, file: &str, language: Language) -> Result<String, InstrumentError> {
    match language {
        Language::C => c::instrument(source, file),
        Language::FreeFortran => fortran::instrument(source, file, false),
        Language::FixedFortran => fortran::instrument(source, file, true),
    }
}
