//! LLVM's and Intel's runtimes, which call us back: OMPT.

mod callbacks;
mod tool;
mod types;

pub(crate) use callbacks::note_lock_caller;
