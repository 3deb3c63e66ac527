//! Reports as people and programs read them.

mod comparison;
mod json;
mod text;

/// Seconds, as everything is shown.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
