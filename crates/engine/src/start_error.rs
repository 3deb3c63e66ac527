//! Why a run does not begin.

use std::error::Error;

use unspool_kernel::layout;
use unspool_loader::LoadError;

/// Why a program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The processor is too old.
    #[error(
        "this processor (or kernel) has no XSAVE, without which vector registers cannot be kept apart"
    )]
    NoXsave,
    /// There is no memory for the engine's own stack.
    #[error("cannot map a stack for unspool itself")]
    OwnStack(#[source] std::io::Error),
    /// Address space for the cache is not to be had.
    #[error("cannot reserve {} GiB of address space for translated code", (layout::CACHE_SIZE + layout::BRANCH_TABLE_SIZE) >> 30)]
    Reserve(#[source] std::io::Error),
    /// A client cannot take part, for reasons of its own.
    #[error(transparent)]
    Client(Box<dyn Error + Send + Sync>),
}
