//! Traces, written and read through the public interface.

mod damage;
mod model;
mod round_trip;
mod streaming;
