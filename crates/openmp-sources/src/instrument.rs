//! From a source to the instrumented source.

use crate::error::InstrumentError;
use crate::{Language, LeftOut, c, fortran};

/// The instrumented source. `file` is the name that context strings give it.
///
/// # Errors
/// If a construct does not end, or ends without having begun.
pub fn instrument(
    source: &str,
    file: &str,
    language: Language,
    left_out: &LeftOut,
) -> Result<String, InstrumentError> {
    match language {
        Language::C => c::instrument(source, file, left_out),
        Language::FreeFortran => fortran::instrument(source, file, false, left_out),
        Language::FixedFortran => fortran::instrument(source, file, true, left_out),
    }
}
