//! Why a function cannot be probed.

use crate::code_bytes::JUMP;

/// Why a function's entry cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it has {0} bytes, and a jump takes {JUMP}")]
    Short(u64),
    #[error("the instruction at {0:#x} branches back to its first bytes")]
    BranchBack(u64),
    #[error("the instruction at {0:#x} branches into its first bytes")]
    BranchInto(u64),
    #[error("its first bytes hold a call at {0:#x}, whose return address would be another")]
    Call(u64),
    #[error("what is at {0:#x} is no instruction")]
    Undecodable(u64),
    #[error("its first instructions mean something else elsewhere: {0}")]
    Bound(String),
    #[error("it is not in code that its file describes")]
    Outside,
    #[error("there is no room for code within two gigabytes of it")]
    NoRoom,
    #[error(
        "the library chooses its code for this processor when it is loaded, later than probes are inserted"
    )]
    Chosen,
    #[error("its code is still going to be relocated")]
    Relocated,
    #[error("the kernel does not let code be changed: {0}")]
    Forbidden(String),
    #[error("its callers may rely on registers, which this processor cannot save all (no xsave)")]
    NoSave,
}
