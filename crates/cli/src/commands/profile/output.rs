//! Where a recording goes.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspool_profile_record::Recording;
use unspool_sampler::mpi_rank;

use crate::failure::Failure;

/// What is reported at the end of the run, and the file in which it is kept, if it is.
pub(super) struct Output {
    file: Option<File>,
    bytes: Vec<u8>,
}

/// A path in which `%r` stands for this process's rank in an MPI job, `%h` for the machine's name, and `%%`
/// for a percent sign.
pub(super) fn named(path: &Path) -> Result<PathBuf, Failure> {
    let bytes = path.as_os_str().as_bytes();
    let mut named = Vec::new();
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            named.push(*byte);
            continue;
        }
        let unknown = || {
            let problem = format!("{}: % stands before r, h or %", path.display());
            Failure::new(problem)
                .with_help("%r is the rank in an MPI job, %h the machine's name, %% a %")
        };
        match rest.next() {
            Some(b'%') => named.push(b'%'),
            Some(b'h') => named.extend(rustix::system::uname().nodename().to_bytes()),
            Some(b'r') => match mpi_rank::own() {
                Some(rank) => named.extend(rank.to_string().bytes()),
                None => {
                    let problem = format!("{}: this is no process of an MPI job", path.display());
                    let help = "%r is for unspool profile under mpirun, srun or the like";
                    return Err(Failure::new(problem).with_help(help));
                }
            },
            _ => return Err(unknown()),
        }
    }
    Ok(PathBuf::from(OsString::from_vec(named)))
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
