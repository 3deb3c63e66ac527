//! Instrumentation by a tool, a client of the engine: what a tool may ask to have inserted, and when
//! it is called.
//!
//! The tool sees each superblock once, when it is translated ([`Superblock`]), and says what is
//! to be done each time its instructions are executed ([`Action`]). The engine decides how.
//! This is the untyped ground: the crate `unspool-tool` gives it types that tools use. Debuggers
//! have accesses tested by it ([`Watcher`]).
//!
//! You [install] a tool, and give what [`instrumenter`] makes of it to [`unspool_engine::run`].

mod action;
pub(crate) mod blocked;
pub(crate) mod buffers;
mod call_path;
mod client;
mod compiled;
mod context;
mod counters;
pub mod functions;
pub mod images;
mod inserted;
mod insertions;
mod joining;
mod repetitions;
mod samplers;
mod shadow;
mod signal;
pub(crate) mod slots;
mod system_calls;
mod tool;
mod view;
mod watcher;
mod world;

pub use action::{
    Action, AnalysisCall, Argument, Field, Function, InsertionPoint, REGISTER_ARGUMENTS,
    Replacement,
};
pub use buffers::{BufferId, BufferKind, Deliver, MOST_BUFFERS, Part};
pub(crate) use client::translate;
pub(crate) use compiled::{Body, Compiled, Step};
pub use context::Context;
pub use counters::Counter;
pub(crate) use counters::{Amounts, together};
pub(crate) use insertions::{Inserted, Insertions};
pub use joining::instrumenter;
pub use repetitions::is_first_repetition;
pub use samplers::{MOST_SAMPLERS, SamplerId, restart_countdown};
pub use shadow::{Shadow, ShadowError};
pub use signal::Signal;
pub use system_calls::{CallWhenOver, SystemCall, SystemCallValue};
pub(crate) use tool::{FragmentCounts, Instrumenter};
pub use tool::{
    Instrumentation, argument_word, ask_tool, install, program_word, thread_number, thread_state,
    tool_address,
};
pub use unspool_code_cache::gates::MOST_ARGUMENTS;
pub use view::{Block, Branch, Instruction, Superblock};
pub use watcher::{Extent, Watcher, watch};
pub use world::{
    StoppedThread, instrument_again, read_memory, spawn, stop_the_world, write_memory,
};
