//! Random instructions, run natively and observed: both must do the same.
//!
//! A [`Case`] is a few instructions and the state that they start from. The host generates
//! cases, writes many of them into one file, and has the runner (this same executable)
//! execute them one after another, natively and under `unspool`. Registers, flags, vectors,
//! x87 state, memory, and how a signal ended a case must be equal. A case that differs is
//! made smaller and printed as one line that replays it.
//!
//! You supply an executable that calls [`runner::run_if_called`] first thing in `main`, and
//! the path of `unspool`. This crate is not for finding out what an instruction should do:
//! the processor says so.

pub mod accesses;
pub mod campaign;
pub mod case;
pub mod compare;
pub mod execute;
pub mod generate;
pub mod layout;
mod left_out;
pub mod minimise;
pub mod place;
pub mod record;
pub mod recorded;
pub mod report;
pub mod runner;
pub mod state;
pub mod ways;

pub use case::Case;
