//! A trace that is still being written, as a stream that ends when its writer does.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use unspool_events::StreamReader;

use crate::failure::{Failure, warn};

/// How often it is looked whether there is more.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A growing file. Its end is where it ends when nobody writes it any more.
#[derive(Debug)]
pub(super) struct Followed {
    file: File,
}

/// Opens a trace that may still be written.
pub(super) fn open(path: &Path) -> Result<StreamReader<Followed>, Failure> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if !file.metadata().is_ok_and(|facts| facts.is_file()) {
        return Err(Failure::new(format!("{} is no plain file", path.display()))
            .with_help("what comes through a pipe is read to its end anyway: leave --follow out"));
    }
    let reader = StreamReader::new(Followed { file });
    Ok(reader.with_context(|| format!("cannot use {}", path.display()))?)
}

/// Says how to get the rest of a trace that somebody is still writing.
pub(super) fn mention_rest(path: &Path) {
    if File::open(path).is_ok_and(|file| is_being_written(&file)) {
        warn("the trace is still being written; with --follow it is read to its end");
    }
}

/// Whether somebody is writing a trace: who does has the file locked, and loses the lock with its
/// life.
fn is_being_written(file: &File) -> bool {
    let whole = Flock::from(FlockType::ReadLock);
    matches!(fcntl_getlk(file, &whole), Ok(Some(_)))
}

impl Read for Followed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            // Asked first: what its writer wrote before it was gone is read behind that.
            let goes_on = is_being_written(&self.file);
            let read = self.file.read(buffer)?;
            if read > 0 || !goes_on {
                return Ok(read);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}
