//! Instrumentation by a tool, a client of the engine: what a tool may ask to have inserted, and when
//! it is called.
//!
//! The tool sees each superblock once, when it is translated ([`Superblock`]), and says what is
//! to be done each time its instructions are executed ([`Action`]). The engine decides how.
//! This is the untyped ground: the crate `unspool-tool` gives it types that tools use. Debuggers
//! have accesses tested by it ([`Watcher`]).
//!
//! You [install] a tool, and give what [`instrumenter()`] makes of it to [`unspool_engine::run`].

mod action;
mod annotation;
mod appending;
mod blocked;
mod buffers;
mod call_forms;
mod call_path;
mod client;
mod compiled;
mod conditional_entry;
mod consumer;
mod context;
mod counters;
mod each_access;
mod elements;
mod fragments;
mod frames;
pub mod functions;
mod growth;
pub mod images;
mod in_tool;
mod inserted;
mod insertions;
mod instrumentation;
mod instrumenter;
mod joining;
mod kept;
mod mappings;
mod numbering;
mod process;
mod rarely;
mod repetitions;
mod samplers;
mod shadow;
mod signal;
mod slots;
mod switches;
mod synchronisation;
mod system_calls;
mod thread_words;
mod threads;
mod view;
mod watcher;
mod world;

pub use action::{
    Action, AnalysisCall, AnalysisFunction, Argument, ConditionalEntry, EachAccess, Field,
    InsertionPoint, MOST_CONDITIONAL_WORDS, REGISTER_ARGUMENTS, Replacement,
};
pub use annotation::Annotation;
pub use buffers::BufferId;
pub use call_forms::{CallForms, call_forms, name_function, note_call_forms};
pub(crate) use compiled::{Body, BodyInstruction, Compiled, Renaming};

pub use consumer::{BufferKind, Consume, Consumption, Deliver, Filled, Receiver};
pub use context::Context;
pub use counters::Counter;
pub(crate) use counters::{Amounts, together};
pub use elements::{Elements, keep_operand};
pub use in_tool::{
    argument_word, program_word, set_operand_address, thread_number, thread_state, wide_argument,
};
pub(crate) use insertions::{Inserted, Insertions};
pub use instrumentation::Instrumentation;
pub(crate) use instrumenter::Instrumenter;
pub use instrumenter::{
    all_images, ask_tool, hook, hook_result, image_at, install, tool_address, watch,
};
pub use joining::instrumenter;
pub use mappings::{Mapping, MappingCause, MappingChange};
pub use rarely::rarely;
pub use repetitions::is_first_repetition;
pub use samplers::{SamplerId, restart_countdown};
pub use shadow::{Shadow, ShadowCheck, ShadowError, ShadowStore, ShadowTest, WordPart, WordValue};
pub use signal::{Signal, SignalOrigin, raise_signal};
pub use slots::{MOST_BUFFERS, MOST_MEMORY_VALUES, MOST_SAMPLERS, Part};
pub use switches::Switch;
pub use synchronisation::{
    AtomicKind, Side, SyncObject, SyncOperation, Synchronisation, ended_thread,
};
pub use system_calls::{CallMemory, CallWhenOver, SystemCall, SystemCallValue};
pub use thread_words::ThreadWord;
pub use threads::ThreadInfo;
pub use unspool_code_cache::exit::Version;
pub use unspool_code_cache::gates::MOST_ARGUMENTS;
pub use unspool_kernel::effects::{Completeness, Effect};
pub use view::{Block, Branch, Instruction, Superblock};
pub use watcher::{AccessExtent, Watcher};
pub use world::{
    StoppedThread, instrument_again, read_memory, spawn, stop_the_world, write_memory,
};
