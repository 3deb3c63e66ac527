//! The engine: runs an unmodified program translated, inside this process.
//!
//! [`start::run`] loads a program beside the engine, translates it from its first
//! instruction into the code cache, and ends as the program ends. The program never runs
//! untranslated.
//!
//! You supply a [`plan::Plan`] and a [`start::Program`]. This crate is not for analysing
//! what it observes: it writes [`unspool_events`] and knows nothing of their readers.

mod annotation;
pub mod branch_table;
pub mod cache;
mod client;
pub mod code_pages;
mod collisions;
pub mod debug;
pub mod decode;
mod descriptors;
pub mod detach;
pub mod dispatch;
pub mod effects;
pub mod emit;
pub mod exit;
pub mod file_identity;
pub mod finish;
pub mod flush;
pub mod gates;
pub mod guarded;
pub mod hashed_branches;
pub mod instrument;
pub mod layout;
pub mod lending;
mod limits;
pub mod loader;
pub mod lock;
mod maps;
pub mod native_run;
pub mod operands;
pub mod own_failures;
pub mod own_stack;
pub mod persist;
pub mod plan;
pub mod process;
pub mod queued_writes;
mod race_windows;
mod range_set;
pub mod regions;
pub mod reserved;
pub mod seccomp;
pub mod signals;
pub mod slots;
pub mod start;
pub mod syscalls;
pub mod thread;
pub mod trace;
pub mod translate;
pub mod warmth;
pub mod x87_pointers;

pub use plan::{Plan, TracePlan};
pub use start::{Program, StartError, continuation, environment, run};
