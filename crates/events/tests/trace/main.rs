//! Traces, written and read through the public interface.

mod damage;
mod forged;
mod golden;
mod in_place;
mod live;
mod model;
mod round_trip;
mod streaming;
mod streams;
