//! What can go wrong while a trace is converted.

use std::io;
use std::path::PathBuf;

/// A conversion that stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The input ended in an error.
    #[error("cannot read the trace")]
    Read(#[source] io::Error),
    /// The output took no more.
    #[error("cannot write the result")]
    Write(#[source] io::Error),
    /// An output file could not be created.
    #[error("cannot create {path}")]
    Create {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A Parquet table could not be written.
    #[error("cannot write the table {path}")]
    Table {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
}
