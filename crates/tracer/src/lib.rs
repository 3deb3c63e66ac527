//! The tracer: a client of the engine that records a program's memory accesses in the order in
//! which they conflicted.
//!
//! What it inserts into translated code leaves words in a buffer of the thread; here
//! they become a trace file. `Tracer` belongs to the process,
//! `ThreadTrace` to a thread. Both speak only the vocabulary of
//! [`unspool_events`].
//!
//! You supply a [`TracePlan`], and give what [`new_tracer`] makes of it to
//! [`unspool_engine::run`]. This crate is not for reading traces, nor for analysing them.

mod annotations;
mod call_stack;
mod ceilings;
mod check_sites;
mod clean_calls;
mod client;
mod destination;
mod fragments;
mod functions;
mod inserted;
mod joining;
mod keeper;
mod modules;
mod native_run;
mod ownership;
mod path_ids;
pub mod plan;
mod progress_line;
mod receiver;
mod recording;
mod run_totals;
mod schedule_noise;
mod selection;
mod shared_memory;
mod skew;
mod sleep;
mod slots;
mod start_error;
mod summary;
mod thread_progress;
mod thread_trace;
mod tickets;
mod trace_buffer;
mod trace_file;
mod tracer;
mod values;

pub use joining::new_tracer;
pub use native_run::NativeRunError;
pub use plan::{TraceOutput, TracePlan};
pub use receiver::Receiver;
pub use start_error::TraceError;
