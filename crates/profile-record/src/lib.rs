//! The files between what samples a program and what says where its time went.
//!
//! A recording is a file of one stream, `samples` ([`unspool_container::in_place`]): blocks that
//! are appended while the program runs, so that whatever ends the run, what was recorded until
//! then is there. A block is a sequence of [`Record`]s. Call paths are kept as a calling context
//! tree: each [`Node`] is written once, and a sample names one.
//!
//! A file is read as untrusted input: what can be read is given, what cannot is a problem. This
//! crate opens no files, and knows neither programs nor analyses.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod merge;
mod read;
mod record;
mod write;

pub use merge::{MergeError, merge};
pub use read::{ReadError, RecordedEvent, Recording};
pub use record::{
    Counted, Ending, Event, EventCount, Frame, Image, Node, Occurrence, PathEnd, Process, Rank,
    Rate, Record, Regions, Sample, Settings, Source, StepCertainty, Symbol, Thread, Wait, Window,
};
pub use write::Writer;

use unspool_container::stream::{Declaration, Form, StreamNumber};

/// The stream's number in the files that are written.
const SAMPLES: StreamNumber = StreamNumber(0x200);

/// The version of the stream. Before version 2 there were no timers, before version 3 neither windows,
/// ranks nor symbols, before version 4 no waits, before version 5 neither events nor regions.
const VERSION: u32 = 5;

/// What a file declares.
fn declaration() -> Declaration {
    Declaration {
        number: SAMPLES,
        name: "samples".into(),
        version: VERSION,
        form: Form::Blocks,
    }
}
