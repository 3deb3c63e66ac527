//! From a source to the instrumented source.

use crate::{Language, c, fortran};

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
