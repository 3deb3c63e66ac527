//! What is known of an address of a file.

use std::ops::Range;

use unspool_binary::{SourceFrame, SourceLine};

/// What is known of an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The functions that it is in, as debugging information has their names, with lines: those that were
    /// inlined first, innermost first.
    pub(crate) frames: Vec<SourceFrame>,
    /// The line, where no function is known.
    pub(crate) line: Option<SourceLine>,
    /// The function that it is in, as the table of symbols has its name, and its code.
    pub(crate) symbol: Option<(String, Range<u64>)>,
}
