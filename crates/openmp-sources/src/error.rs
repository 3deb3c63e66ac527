//! Why a source cannot be instrumented.

/// Why a source cannot be instrumented.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct InstrumentError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}
