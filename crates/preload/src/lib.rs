//! What the libraries share that are loaded into programs which run natively: the collector,
//! the runtime of instrumented programs, and probes.
//!
//! A library of this kind lives in somebody else's process. It begins and ends with it
//! ([`begin_and_end!`]), must come through its forks ([`fork`]), finds by name what else
//! is loaded ([`symbols`]), and measures time at the least cost ([`clock`]).
//!
//! This crate is not for the command, which is a static program, nor for the engine, which
//! does without the program's C library.

pub mod clock;
pub mod fork;
mod lifetime;
pub mod symbols;
