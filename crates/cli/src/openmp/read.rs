//! Reading recordings, and what the collector left of one process.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use unspool_openmp::{OpenError, Recording};
use unspool_openmp_record::{ProcessRecord, ReadError};

use crate::failure::Failure;

/// Bytes that tell a recording from a program.
const START_BYTES: u64 = 64;

/// Whether a file is a recording, or another file of Unspool, which is no program either.
pub(super) fn is_recording(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.is_ok() && Recording::begins(&start)
}

/// Reads a recording. The file of a process that the collector left serves as one, too.
pub(super) fn recording(path: &Path) -> Result<Recording, Failure> {
    let context = || format!("cannot use {}", path.display());
    let bytes = std::fs::read(path).with_context(context)?;
    match Recording::from_bytes(&bytes) {
        Err(OpenError::NotARecording) => {}
        read => return Ok(read.with_context(context)?),
    }
    match ProcessRecord::read(&bytes, None) {
        Ok(record) => Ok(Recording::new(record.arguments.clone(), &[record])),
        Err(ReadError::NotARecord) if Recording::begins(&bytes) => {
            let failure = Failure::new(format!(
                "{} is no recording of an OpenMP program",
                path.display()
            ));
            Err(failure.with_help(format!("unspool info {} says what it is", path.display())))
        }
        Err(error) => Err(error).with_context(context)?,
    }
}
