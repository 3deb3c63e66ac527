//! Traces, written and read through the public interface.

mod damage;
mod forged;
mod golden;
mod model;
mod round_trip;
mod streaming;
