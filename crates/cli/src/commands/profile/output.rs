//! Where a recording goes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use unspool_profile_record::Recording;

use crate::failure::Failure;

/// What is reported at the end of the run, and the file in which it is kept, if it is.
pub(super) struct Output {
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Output {
    /// Opens the file. What it has stays until something is written.
    pub(super) fn open(path: Option<&Path>) -> Result<Output, Failure> {
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let options = options.write(true).create(true).truncate(false);
            options
                .open(path)
                .map_err(|error| Failure::cannot_write(path, error))
        };
        Ok(Output {
            file: path.map(open).transpose()?,
            bytes: Vec::new(),
        })
    }

    /// Reads what was written.
    pub(super) fn read_again(&self) -> Result<Recording, Failure> {
        Ok(Recording::read(&self.bytes).context("cannot read the recording again")?)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.file {
            Some(file) => {
                // Pipes and devices have nothing to be emptied of.
                if self.bytes.is_empty() && file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                file.write(bytes)?
            }
            None => bytes.len(),
        };
        self.bytes.extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}
