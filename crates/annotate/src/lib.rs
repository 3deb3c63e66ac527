//! Tells Unspool about the program: which thread is which, and which part is of interest.
//!
//! Without Unspool the calls have no effect and cost a few instructions. With it they appear in the
//! trace, and tracing and sampling (`--roi`) can be limited to regions, tracing to registered threads too. Intervals of a thread have figures of their own in `unspool
//! openmp`. There is the same for C and C++: `include/unspool.h`.
//!
//! Needs no standard library and nothing else. On other processors than x86-64 the calls do
//! nothing at all.
//!
//! ```
//! let worker = std::thread::spawn(|| {
//!     unspool_annotate::register_thread(1, c"worker");
//!     unspool_annotate::start_region();
//!     let sum: u64 = (0..1000).sum();
//!     unspool_annotate::end_region();
//!     sum
//! });
//! assert_eq!(worker.join().expect("no panic"), 499_500);
//! ```
//!
//! # How it works
//!
//! Each call executes [`MARKER`], a no-operation instruction with a displacement that no
//! compiler produces, with the [`Operation`] in `rdi` and its arguments in `rsi` and `rdx`.
//! Unspool recognises it while it translates. Nothing is changed: no register, no flag. Regions and
//! intervals also call functions that are there only while `unspool profile --roi` or `unspool openmp` observes
//! the program.
#![no_std]
#![deny(missing_docs)]

mod mark;
mod operation;

pub use mark::{begin_interval, end_interval, end_region, register_thread, start_region};
pub use operation::{MARKER, Operation};
