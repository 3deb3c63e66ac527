//! The library that samples a program from within, where the kernel takes no samples: it is loaded
//! by `LD_PRELOAD`, gives each thread a timer, and in the timer's handler copies the thread's
//! registers and the upper part of its stack to memory that the command reads
//! ([`unspool_sample_slots`]). It writes what the kernel would, so that all else is the same.
//!
//! ```text
//! begin_and_end  threads    what happens to the process and its threads
//! signals                   what the program says of signals
//! blocking  sockets         what it waits for
//! handler                   a sample
//! thread                    a thread and its slot
//! record  timer  stack      records; a thread's timer, and its stack
//! regions                   what the program says is of interest
//! slot  own_signal  real    memory; the signal; functions of the C library
//! clock  system_call        times; the kernel
//! ```
//!
//! The handler allocates nothing, takes no lock, uses no thread-local storage (`errno` neither) and
//! calls no function that the program may have replaced: what it needs comes with the signal.
//! Nothing else here allocates either, since the program's allocator may be anyone's.
//!
//! Without the environment variable `UNSPOOL_PROFILE_SLOTS` every function only passes its call on; regions
//! are told by `UNSPOOL_PROFILE_REGIONS`.
//!
//! This crate must be built as a shared library of its own, without the static C library of the
//! rest: `unspool-collector-library` does so.

mod begin_and_end;
mod blocking;
mod clock;
mod handler;
mod own_signal;
mod real;
mod record;
mod regions;
mod signals;
mod slot;
mod sockets;
mod stack;
mod system_call;
mod thread;
mod threads;
mod timer;
