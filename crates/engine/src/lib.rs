//! The engine: runs an unmodified program translated, inside this process.
//!
//! [`start::run`] loads a program beside the engine, translates it from its first
//! instruction into the code cache, and ends as the program ends. The program never runs
//! untranslated.
//!
//! You supply a [`Plan`], a [`Program`], and who is to take part in its run ([`NewClient`]). This
//! crate is not for observing the program: that is what clients are for.

pub mod annotation;
pub mod client;
pub mod code_pages;
mod collisions;
pub mod detach;
mod dispatch;
pub mod finish;
pub mod flush;
mod lending;
pub mod own_failures;
mod persist;
pub mod plan;
pub mod process;
mod seccomp;
pub mod signals;
pub mod start;
mod start_error;
pub mod syscalls;
pub mod thread;
pub mod translate;
mod x87_pointers;

pub use client::NewClient;
pub use plan::{Plan, Program};
pub use start::{Continuation, continuation, environment, run};
pub use start_error::StartError;
