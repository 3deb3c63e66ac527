//! The engine: runs an unmodified program translated, inside this process.
//!
//! [`start::run`] loads a program beside the engine, translates it from its first
//! instruction into the code cache, and ends as the program ends. The program never runs
//! untranslated.
//!
//! You supply a [`Plan`], a [`Program`], and who is to take part in its run ([`NewClient`]). This
//! crate is not for observing the program: that is what clients are for.

pub mod call;
pub mod code_pages;
mod collisions;
pub mod detach;
mod dispatch;
mod filters;
pub mod finish;
pub mod flush;
mod lending;
pub mod own_failures;
mod own_files;
mod persist;
pub mod plan;
pub mod requests;
mod restarting;
mod seccomp;
mod served_memory;
pub mod signal_handling;
pub mod signals;
pub mod start;
mod start_error;
mod state;
pub mod syscalls;
pub mod threads;
pub mod translate;
mod vfork_copy;
mod x87_pointers;

pub use state::{annotation, client, process, thread};

pub use client::NewClient;
pub use plan::{Plan, Program};
pub use start::{Continuation, continuation, environment, run};
pub use start_error::StartError;
