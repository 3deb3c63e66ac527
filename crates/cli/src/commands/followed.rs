//! A trace that is still being written, as a stream that ends when its writer does.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use unspool_events::StreamReader;

use crate::failure::{Failure, warn};

/// How often it is looked whether there is more.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Of a process that was killed, what its sleeping threads have left is written so much later at
/// the most, by another one.
const AFTER_DEATH: Duration = Duration::from_secs(1);

/// A growing file. Its end is where it ends when nobody writes it any more.
#[derive(Debug)]
pub(super) struct Followed {
    file: File,
}

/// Opens a trace that may still be written.
pub(super) fn open(path: &Path) -> Result<StreamReader<Followed>, Failure> {
    let reader = StreamReader::new(Followed {
        file: plain_file(path)?,
    });
    Ok(reader.with_context(|| format!("cannot use {}", path.display()))?)
}

/// Waits until nobody writes a trace any more. Calls `look` about once a second meanwhile.
pub(super) fn wait_for_end(path: &Path, mut look: impl FnMut()) -> Result<(), Failure> {
    const LOOKS_BETWEEN: usize = 20;
    let file = plain_file(path)?;
    let mut looks = (1..).map(|number: usize| number.is_multiple_of(LOOKS_BETWEEN));
    while is_being_written(&file) {
        if looks.next() == Some(true) {
            look();
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    std::thread::sleep(AFTER_DEATH);
    Ok(())
}

fn plain_file(path: &Path) -> Result<File, Failure> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    match file.metadata().is_ok_and(|facts| facts.is_file()) {
        true => Ok(file),
        false => Err(not_a_file(path.display())),
    }
}

/// Only a file can be followed.
pub(super) fn not_a_file(name: impl Display) -> Failure {
    Failure::new(format!("{name} is no plain file"))
        .with_help("what comes through a pipe is read to its end anyway: leave --follow out")
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
        let mut dead_since = None;
        loop {
            // Asked first: what its writer wrote before it was gone is read behind that.
            let is_over = !is_being_written(&self.file)
                && dead_since.get_or_insert_with(Instant::now).elapsed() >= AFTER_DEATH;
            let read = self.file.read(buffer)?;
            if read > 0 || is_over {
                return Ok(read);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}
