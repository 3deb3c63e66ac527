//! Turns traces into what people and other tools read: the text format of
//! atomic-memory-trace, CSV, JSON lines, Parquet tables, and a summary of what a trace holds.
//!
//! You supply an open trace and somewhere to write. Every exporter is a
//! [`unspool_events::Sink`]: it takes a trace as it is read, in whatever order the reader
//! gives it, and keeps no more than a buffer. `docs/exports.md` describes what they write.
//!
//! This crate is not for conclusions: those are drawn in `unspool-analyses`.
//!
//! ```no_run
//! use unspool_events::Trace;
//! use unspool_report::{Names, TsvExporter, TsvOptions};
//!
//! let trace = Trace::open("sort.unspool".as_ref())?;
//! let options = TsvOptions::of_trace(trace.header());
//! let mut exporter = TsvExporter::new(std::io::stdout(), Names::of_trace(&trace), options);
//! let problems = trace.merged().deliver(&mut exporter);
//! exporter.finish()?;
//! for problem in problems {
//!     eprintln!("{problem}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod both;
mod buffered_output;
mod csv;
mod description;
mod error;
mod event_row;
mod information;
mod instructions;
mod json;
mod listing;
mod merge_text;
mod names;
mod parquet_tables;
mod pending_data_set;
mod pending_file;
mod placed_module;
mod places;
mod row_text;
mod tsv;

pub use both::Both;
pub use csv::CsvExporter;
pub use description::{Description, SCHEMA_VERSION as JSON_SCHEMA_VERSION};
pub use error::ExportError;
pub use information::{Information, KindCounts, SCHEMA_VERSION as INFORMATION_SCHEMA_VERSION};
pub use json::JsonExporter;
pub use listing::{Listing, ListingOptions};
pub use merge_text::{TextMergeSummary, merge_text};
pub use names::Names;
pub use parquet_tables::{DataSetExporter, ParquetExporter, ParquetPaths};
pub use pending_file::{PendingFile, partial_beside};
pub use places::{CodePlace, DataPlace, Places};
pub use tsv::{LeftOut, TsvExporter, TsvOptions};
