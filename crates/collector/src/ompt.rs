//! LLVM's and Intel's runtimes, which call us back: OMPT.

mod callbacks;
mod tool;
mod types;
