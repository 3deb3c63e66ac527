//! The process, its threads, and the clients of both: what there is, and who knows whom.

pub mod annotation;
pub mod client;
pub mod process;
pub mod thread;
