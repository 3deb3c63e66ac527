//! Reading recordings.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use unspool_openmp::Recording;

use crate::failure::Failure;

/// What a recording starts with.
const FIRST_WORDS: &[u8] = b"unspool openmp recording ";

/// Whether a file is a recording, of whatever version.
pub(super) fn is_recording(path: &Path) -> bool {
    let mut start = [0; FIRST_WORDS.len()];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut start))
        .is_ok()
        && start == *FIRST_WORDS
}

/// Reads a recording.
pub(super) fn recording(path: &Path) -> Result<Recording, Failure> {
    let context = || format!("cannot use {}", path.display());
    let bytes = std::fs::read(path).with_context(context)?;
    Ok(Recording::from_bytes(&bytes).with_context(context)?)
}
