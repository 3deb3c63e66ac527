//! Why is this OpenMP program not faster?
//!
//! From what the collector counted in each process ([`unspool_openmp_record`]) to an answer:
//!
//! ```text
//! ProcessRecord ──recording──► Recording ──characteristics──► Report ──show──► text, JSON
//!                 (one tree of              (productive, lost,
//!                  constructs, with          idle; per thread,
//!                  source lines)             interval, construct)
//! ```
//!
//! A [`Recording`] needs neither the program nor its machine any more, and is what a file
//! keeps. [`Report`] holds every figure that is shown.
//!
//! This crate runs no programs and knows nothing of how they are observed.
#![forbid(unsafe_code)]

mod characteristics;
mod comparison;
mod concurrency;
mod diagnosis;
mod hierarchy;
mod location;
pub mod original_analyser;
mod points;
mod recording;
mod report;
mod show;
mod sources;
mod timeline;

pub use characteristics::{Characteristics, LossClass, Losses, Overheads, ThreadCharacteristics};
pub use comparison::{Change, Comparison, Growth};
pub use hierarchy::Hierarchy;
pub use location::Location;
pub use points::SynchronisationPoint;
pub use recording::{
    Construct, OpenError, Others, Process, Program, Recording, Schedule, Share, Span, ThreadTime,
};
pub use report::{Grouping, Interval, ProcessReport, Report};
pub use timeline::{Timeline, write_timeline};
