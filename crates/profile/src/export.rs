//! Recordings in the formats of other programs, with all names: sample by sample, but for the
//! flame graph and Hatchet's tree.
//!
//! | function | format | read by |
//! |---|---|---|
//! | [`flame_graph()`] | SVG | browsers |
//! | [`hatchet()`] | JSON | Hatchet, a library of Python |
//! | [`hpctoolkit()`] | database, version 4 | hpcviewer, Hatchet |
//! | [`perfetto()`] | `perfetto_trace.proto` | ui.perfetto.dev |
//! | [`pprof()`] | `profile.proto`, compressed | `go tool pprof`, Grafana, Google Cloud |
//! | [`firefox()`] | processed profile, JSON | profiler.firefox.com |
//! | [`speedscope()`] | `file-format-schema.json` | speedscope.app |

mod firefox;
mod flame_graph;
mod hatchet;
mod hpctoolkit;
mod perfetto;
mod pprof;
mod speedscope;
#[cfg(test)]
mod tests;

pub use firefox::firefox;
pub use flame_graph::flame_graph;
pub use hatchet::hatchet;
pub use hpctoolkit::{DatabaseFile, hpctoolkit};
pub use perfetto::perfetto;
pub use pprof::pprof;
pub use speedscope::speedscope;
