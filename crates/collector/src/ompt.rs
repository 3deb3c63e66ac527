//! LLVM's and Intel's runtimes, which call us back: OMPT.

mod callbacks;
mod doacross;
mod runtime;
mod runtime_work;
mod tool;
mod types;
