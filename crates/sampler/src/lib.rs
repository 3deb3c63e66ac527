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
//! ([`unspool_profile_record`]) to the other; [`attach()`] records a process that runs. Names and lines of the source are not looked up
//! here: that is for whoever reads the recording.
//!
//! ```text
//! run  attach           a run from start to end; a process that runs already
//! recording             from what is read to the file
//! run_error             what keeps a run from being recorded
//! perf  timers          the two back ends
//! trial                 what the kernel allows
//! slot_file  removal    what is shared with programs, and goes in the end
//! perf_data             what perf record has written, as a recording
//! event_choice          names of events, and what the kernel calls them
//! perf_event  ring      what the kernel is asked for, and where it answers
//! shared_memory         memory of both
//! source  sampling      what a back end is; when, how often and how much is looked at
//! observer              follows all processes
//! part_of_run  region_marks
//!                       which part of the run samples are kept of; what programs say of it
//! waits                 from when threads leave processors to when they have one again
//! tree                  the calling context tree as it is written
//! call_path             from a sample to the frames
//! address_space  image  where code is in a process; what unwinding needs of a file
//! kernel_record         what a back end says
//! mpi_rank              which processes are ranks of a job
//! generated_code        functions of just-in-time compilers
//! perf_map              what these say of them
//! clock                 times
//! file_size_limit       what holds for the program and not for its recording
//! ```
#![deny(missing_docs)]

mod address_space;
mod attach;
mod call_path;
mod clock;
mod event_choice;
mod file_size_limit;
mod generated_code;
mod image;
mod kernel_record;
pub mod mpi_rank;
mod observer;
mod part_of_run;
mod perf;
pub mod perf_data;
mod perf_event;
mod perf_map;
mod recording;
mod region_marks;
mod removal;
mod ring;
mod run;
mod run_error;
mod sampling;
mod shared_memory;
mod slot_file;
mod source;
mod timers;
mod tree;
pub mod trial;
mod waits;

pub use attach::attach;
pub use event_choice::EventChoice;
pub use perf::Perf;
pub use perf_event::SetupError;
pub use run::{Backend, Clock, Outcome, run};
pub use run_error::RunError;
pub use sampling::{Sampling, Window};
pub use timers::LeftOut;
