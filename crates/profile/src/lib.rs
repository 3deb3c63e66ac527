//! Where did the time go? From the samples of a run to the times of its functions and call paths.
//!
//! You supply a [`Recording`](unspool_profile_record::Recording); [`NamedPaths::new`] finds the names
//! of its functions, inlined ones and lines of the source among them, and [`Profile::new`] adds up. `text`, `json`
//! and `folded` show it; [`Scaling`] compares it with a smaller run's; [`export`] writes what other programs read, sample by sample.
//! `docs/profile.md` says what each figure means.
//!
//! A call path counts once for each function on it, however often that is on it. A function that
//! calls itself is one entry of the tree.
//!
//! Not for: taking samples, which is `unspool-sampler`'s, and deciding what to do about them.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod annotated;
mod call_tree;
mod event_values;
pub mod export;
mod folded;
mod json;
mod loop_times;
mod metric;
mod metric_values;
mod named_paths;
mod names;
mod profile;
mod quality;
#[cfg(test)]
mod recordings;
mod scaling;
mod source_paths;
mod structure;
mod text;
mod time_line;
mod unit;

pub use call_tree::{CallTree, FunctionId, TreeNode};
pub use loop_times::LoopTime;
pub use metric::Metric;
pub use named_paths::NamedPaths;
pub use profile::{Function, LineTime, Preempted, Profile, Spread, ThreadTime};
pub use quality::Quality;
pub use scaling::{BothTimes, Context, Expectation, RunSize, Scaling};
pub use structure::Loop;
pub use text::View;
pub use time_line::{Stretch, ThreadLine, TimeLine};
pub use unit::Unit;
