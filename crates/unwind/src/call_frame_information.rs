//! What the compiler says of frames: `.eh_frame` and `.eh_frame_hdr`.
//!
//! Sources: the DWARF standard, version 5, section 6.4; Linux Standard Base Core 5.0, chapter
//! "Exception Frames"; System V ABI for x86-64, section 3.7.

mod entry;
mod expression;
mod header;
mod program;
mod reader;

pub use entry::{Entries, FrameDescription};
pub(crate) use expression::evaluate;
pub(crate) use header::find;
pub use header::search_table;
