//! The engine: runs an unmodified program translated, inside this process.
//!
//! [`start::run`] loads a program beside the engine, translates it from its first
//! instruction into the code cache, and ends as the program ends. The program never runs
//! untranslated.
//!
//! You supply a [`plan::Plan`] and a [`start::Program`]. This crate is not for analysing
//! what it observes: it writes [`unspool_events`] and knows nothing of their readers.

mod annotation;
mod client;
mod code_pages;
mod collisions;
pub mod debug;
pub mod detach;
mod dispatch;
pub mod finish;
mod flush;
pub mod instrument;
mod lending;
pub mod native_run;
mod own_failures;
mod persist;
pub mod plan;
mod process;
mod receiver;
mod seccomp;
mod signals;
pub mod start;
mod syscalls;
mod thread;
mod trace;
mod translate;
mod x87_pointers;

pub use plan::{Plan, TraceOutput, TracePlan};
pub use receiver::Receiver;
pub use start::{Program, StartError, continuation, environment, run};
