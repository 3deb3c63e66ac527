//! What keeps a run from being recorded.

use std::io;

use crate::perf_event::SetupError;

/// Why there is no run, or none to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No samples can be taken.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// There are no files for samples of timers inside the program.
    #[error("cannot make files for the samples")]
    Files(#[source] io::Error),
    /// The program cannot be started.
    #[error("cannot start the program")]
    Start(#[source] io::Error),
    /// The recording cannot be written.
    #[error("cannot write the recording")]
    Write(#[source] io::Error),
    /// The end of the program cannot be waited for.
    #[error("cannot wait for the program")]
    Wait(#[source] io::Error),
}
