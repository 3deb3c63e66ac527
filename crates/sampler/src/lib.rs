//! Finds out where the threads of an unmodified program are, by call path, many times a second of
//! their CPU time.
//!
//! The kernel takes the samples (`perf_event_open(2)`, with a software clock): the registers of a
//! thread and the upper part of its stack. They are read, unwound and written here, outside the
//! program. Nothing is loaded into it: its signals and timers are its own, it may be linked
//! statically, and its children and threads are followed by the kernel.
//!
//! You supply a command and an output; [`run()`] runs the one and writes a recording
//! ([`unspool_profile_record`]) to the other. Names and lines of the source are not looked up
//! here: that is for whoever reads the recording.
//!
//! ```text
//! perf_event  ring     what the kernel is asked for, and where it answers
//! kernel_record        what it says
//! address_space image  where code is in a process; what unwinding needs of a file
//! call_path            from a sample to the frames
//! tree  observer       the calling context tree as it is written
//! file_size_limit      what holds for the program and not for its recording
//! trial                what the kernel allows
//! run                  a run from start to end
//! ```
#![deny(missing_docs)]

mod address_space;
mod call_path;
mod file_size_limit;
mod image;
mod kernel_record;
mod observer;
mod perf_event;
mod ring;
mod run;
mod tree;
pub mod trial;

pub use perf_event::SetupError;
pub use run::{Outcome, RunError, Sampling, run};
