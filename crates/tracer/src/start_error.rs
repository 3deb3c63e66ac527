//! Why a run cannot be traced.

use std::path::PathBuf;

use unspool_kernel::layout;

use super::native_run::NativeRunError;
use unspool_engine::StartError;

/// Why a program cannot be traced. The engine hands it on as a
/// [`StartError::Client`].
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Address space for the owners of cache lines is not to be had.
    #[error("cannot reserve {} TB of address space for line-atomic order, from {:#x} on", layout::OWNER_WORDS_END / 1_000_000_000_000 + 1, layout::OWNER_WORDS)]
    ReserveOwners(#[source] std::io::Error),
    /// The tests have asked for ceilings that there are not.
    #[error("cannot lower what a trace can tell apart")]
    Ceilings(#[source] std::io::Error),
    /// What the program and line-atomic order need of the address space is the same.
    #[error(
        "the program uses the {0} sanitizer, whose shadow memory lies where line-atomic order keeps its owner words"
    )]
    ShadowMemory(&'static str),
    /// The same, for a program that is linked there.
    #[error(
        "the program is linked at addresses that line-atomic order needs: above {:#x}, or so large that translated code takes them",
        layout::OWNER_WORDS
    )]
    NoPlaceForOwners,
    /// The native run that the observed one is to be compared with cannot be made.
    #[error(transparent)]
    NativeRun(#[from] NativeRunError),
    /// The plan came from another process, and nobody has said who gets the records in this one.
    #[error("nobody here takes what is recorded")]
    NoReceiver,
    /// The trace cannot be written.
    #[error("cannot write the trace to {path}")]
    Trace {
        /// Where to.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl From<TraceError> for StartError {
    fn from(error: TraceError) -> StartError {
        StartError::Client(Box::new(error))
    }
}
