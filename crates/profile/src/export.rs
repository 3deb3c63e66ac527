//! Recordings in the formats of other programs, sample by sample, with all names.
//!
//! | function | format | read by |
//! |---|---|---|
//! | [`pprof()`] | `profile.proto`, compressed | `go tool pprof`, Grafana, Google Cloud |
//! | [`firefox()`] | processed profile, JSON | profiler.firefox.com |
//! | [`speedscope()`] | `file-format-schema.json` | speedscope.app |

mod firefox;
mod pprof;
mod speedscope;
#[cfg(test)]
mod tests;

pub use firefox::firefox;
pub use pprof::pprof;
pub use speedscope::speedscope;
