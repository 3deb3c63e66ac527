//! What a trace is and how much it holds, without what it says.

use std::fs::File;
use std::path::Path;

use super::Summary;
use super::contents::find_chunks_of;
use super::index::Totals;
use super::start::read_start;
use crate::problem::ReadError;
use unspool_container::TraceHeader;

/// A trace's header and totals. Reading them takes the index alone, or where that is missing a look
/// at each chunk's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// What was known when the trace began.
    pub header: TraceHeader,
    /// The totals, but for the number of superblocks. Of an incomplete trace: of what is there.
    pub summary: Summary,
    /// Whether the trace was finished, rather than cut off.
    pub is_complete: bool,
}

impl Outline {
    /// Reads a file.
    ///
    /// # Errors
    /// As for [`super::Trace::open`].
    pub fn read(path: &Path) -> Result<Outline, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::Open {
            path: path.to_owned(),
            source,
        })?;
        let metadata = file.metadata();
        let file_bytes = metadata
            .map_err(|source| ReadError::Read { offset: 0, source })?
            .len();
        let start = read_start(&file)?;
        let contents = find_chunks_of(&file, &start, file_bytes);
        let mut totals = Totals::default();
        for entry in &contents.chunks {
            totals.add(&entry.header);
        }
        let dropped_words = contents.end.as_ref().map_or(0, |end| end.dropped_words);
        Ok(Outline {
            header: start.header,
            summary: Summary {
                dropped_words,
                file_bytes,
                ..totals.summary()
            },
            is_complete: contents.end.is_some(),
        })
    }
}
