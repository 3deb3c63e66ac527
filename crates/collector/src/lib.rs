//! The library that is loaded into OpenMP programs and counts where their threads wait.
//!
//! It is loaded by `LD_PRELOAD`, and sees a program in three ways: GNU's libgomp through the
//! entry points that compilers call (`gomp`), LLVM's and Intel's runtimes through OMPT
//! (`ompt`), and MPI through its profiling interface (`mpi`). All three say the same few
//! things to the `thread` that they are called on: it enters a construct, waits, leaves.
//! What is counted stands in a file that is mapped into memory (`arena`), so that nothing
//! has to happen at the end of a process, however it ends.
//!
//! Without the environment variable `UNSPOOL_OPENMP_DIRECTORY` every function only passes
//! its call on.
//!
//! This crate must be built as a shared library of its own, with frame pointers, and without
//! the static C library of the rest: `unspool-collector-library` does so.

mod arena;
mod begin_and_end;
mod call_path;
mod caller;
mod construct;
mod fork;
mod gomp;
mod intervals;
mod loop_schedule;
mod modules;
mod mpi;
mod ompt;
mod process;
mod processor_time;
mod runtime_function;
mod runtimes;
mod task_chains;
mod team;
mod thread;
mod thread_slots;
