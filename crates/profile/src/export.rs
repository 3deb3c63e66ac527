//! Recordings in the formats of other programs, sample by sample, with all names.
//!
//! | function | format | read by |
//! |---|---|---|
//! | [`pprof()`] | `profile.proto`, compressed | `go tool pprof`, Grafana, Google Cloud |
//! | [`firefox()`] | processed profile, JSON | profiler.firefox.com |
//! | [`speedscope()`] | `file-format-schema.json` | speedscope.app |

mod firefox;
mod named_paths;
mod pprof;
mod speedscope;
#[cfg(test)]
mod tests;

pub use firefox::firefox;
pub use pprof::pprof;
pub use speedscope::speedscope;

/// What is told of a run besides its samples.
fn title(recording: &unspool_profile_record::Recording) -> String {
    let words = recording.header.arguments.iter();
    let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}
