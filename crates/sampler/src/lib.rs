//! Finds out where the threads of an unmodified program are, by call path, many times a second of
//! their CPU time.
//!
//! There are two back ends behind one interface (`source`). The kernel takes the samples
//! (`perf_event_open(2)`, with a software clock): the registers of a thread and the upper part of
//! its stack. Nothing is loaded into the program then: its signals and timers are its own, it may
//! be linked statically, and its children and threads are followed by the kernel. Where the kernel
//! does not, a library in the program takes them, by timers of its threads, and writes the same
//! records. In both cases they are unwound and written here, outside the program.
//!
//! You supply a command, a back end and an output; [`run()`] runs the one and writes a recording
//! ([`unspool_profile_record`]) to the other. Names and lines of the source are not looked up
//! here: that is for whoever reads the recording.
//!
//! ```text
//! run                   a run from start to end
//! perf  timers          the two back ends
//! trial                 what the kernel allows
//! slot_file             what is shared with programs
//! perf_event  ring      what the kernel is asked for, and where it answers
//! source  sampling      what a back end is; how often and how much is looked at
//! observer              follows all processes
//! tree                  the calling context tree as it is written
//! call_path             from a sample to the frames
//! address_space  image  where code is in a process; what unwinding needs of a file
//! kernel_record         what a back end says
//! mappings              lines of /proc/PID/maps
//! file_size_limit       what holds for the program and not for its recording
//! ```
#![deny(missing_docs)]

mod address_space;
mod call_path;
mod file_size_limit;
mod image;
mod kernel_record;
mod mappings;
mod observer;
mod perf;
mod perf_event;
mod ring;
mod run;
mod sampling;
mod slot_file;
mod source;
mod timers;
mod tree;
pub mod trial;

pub use perf_event::SetupError;
pub use run::{Backend, Clock, Outcome, RunError, is_perf_allowed, run};
pub use sampling::Sampling;
pub use timers::LeftOut;
