//! Instrumentation by a tool: what a tool may ask the translator to insert, and when the
//! engine calls it.
//!
//! The tool sees each superblock once, when it is translated ([`Trace`]), and says what is
//! to be done each time its instructions are executed ([`Action`]). The engine decides how.
//! This is the untyped ground: the crate `unspool-tool` gives it types that tools use.

mod action;
pub(crate) mod buffers;
mod counters;
mod hooks;
mod tool;
mod view;

pub use action::{Action, Argument, Field, Function, MOST_ARGUMENTS, Place};
pub use buffers::{BufferId, BufferKind, Deliver, MOST_BUFFERS, Part};
pub use counters::Counter;
pub(crate) use counters::FAST_COUNTERS;
pub(crate) use hooks::{
    after_fork, before_fork, conclude, keep_position, leave_midway, system_call_enters,
    system_call_leaves, thread_ends, thread_starts, translate, translations_gone,
};
pub(crate) use tool::{FragmentCounts, Instrumenter};
pub use tool::{Instrumentation, SystemCall, install, thread_state, tool_address};
pub(crate) use view::Insertions;
pub use view::{Block, Branch, Instruction, Trace};
