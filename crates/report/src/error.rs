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
    /// A folder holds something else already.
    #[error("{path} is no data set and not empty")]
    NotADataSet {
        /// Which folder.
        path: PathBuf,
    },
    /// A data set has a process of this number.
    #[error("the data set {path} already has a process {process}")]
    ProcessExists {
        /// The data set.
        path: PathBuf,
        /// The process.
        process: u32,
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
