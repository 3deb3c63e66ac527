//! Write a tool that watches a program run, whatever it was compiled from.
//!
//! A tool is an ordinary program of yours. It runs another program, unmodified, inside its
//! own process, and decides what is to be done whenever certain instructions of it are
//! executed. Instrumentation and analysis are two things: [`Tool::instrument`] is called
//! once for each piece of code, when it is about to be run for the first time, and says what
//! to insert there; what was inserted runs every time.
//!
//! This tool counts the instructions that a program executes:
//!
//! ```no_run
//! use unspool_tool::{Counter, Superblock, Tool};
//!
//! struct InstructionCount {
//!     executed: Counter,
//! }
//!
//! impl Tool for InstructionCount {
//!     type Thread = ();
//!
//!     fn instrument(&self, superblock: &Superblock<Self>) {
//!         for instruction in superblock.instructions() {
//!             instruction.before().count(self.executed, 1);
//!         }
//!     }
//!
//!     fn end(&self) {
//!         unspool_tool::say(&format!("{} instructions", self.executed.total()));
//!     }
//! }
//!
//! fn main() {
//!     unspool_tool::run(InstructionCount { executed: Counter::new() })
//! }
//! ```
//!
//! Built with `cargo build`, it is run as `./instruction-count -- PROGRAM ARGUMENTS`. Its crate
//! needs the file `.cargo/config.toml` that this project has: a tool is one static executable
//! that can be loaded anywhere, so that its C library never meets the program's. It tells
//! what it found by [`say`], because many programs close their standard error before they end.
//! Although it asks for a count at every instruction, one addition for each piece of code is
//! all that is inserted.
//!
//! You supply the tool. This crate is not for programs that were stopped and are to be
//! changed, nor for another processor than x86-64.

mod access;
mod adapter;
mod argument;
mod batch;
mod buffer;
mod call;
mod code;
mod controller;
mod function;
mod image;
mod moment;
mod point;
mod routine_values;
mod run;
mod sampler;
mod shadow;
mod source;
mod state;
mod synchronisation;
mod system_call;
mod tool;
mod world;

pub use access::{Accesses, AllAccesses, ElementAddress, ElementIsWritten, ElementSize, accesses};
pub use argument::{Address, Analysis, Argument, Arguments, Constant, Word};
pub use batch::Batch;
pub use buffer::{Buffer, Entry, EntryField, FieldValue};
pub use code::{Block, Instruction, Instructions, Superblock};
pub use controller::{
    Control, Controlled, Controller, InvalidControl, RegionChange, RegionProgress, Trigger,
};
pub use function::{Original, Replacement, Signature, Value, Wrapper};
pub use iced_x86;
pub use image::{Image, Routine, RoutinePoint, UnnamedRoutine};
pub use moment::{
    AfterSystemCall, AtAccess, AtEntry, AtExit, AtInstruction, AtUnwind, Moment, RoutineMoment,
};
pub use point::Point;
pub use routine_values::{
    FunctionArgument, FunctionArgumentByReference, ReturnAddress, ReturnValue,
    ReturnValueByReference, StackPointer, ValueMut,
};
pub use run::{arguments, install, run, say, set_arguments, set_control, stop};
pub use sampler::Sampler;
pub use shadow::{Shadow, ShadowPart, ShadowValue, ShadowWord, ThreadWord};
pub use source::{
    AccessSize, BranchTaken, BranchTarget, ByReference, EffectiveAddress, FallThrough,
    FirstRepetition, FullContext, InstructionPointer, LowVector, MemoryValue, Narrowed, Predicate,
    Register, RegisterMut, ThreadNumber, TimeStamp, ValueOr, access_size, branch_taken,
    branch_target, effective_address, first_repetition, memory_value, narrow, predicate, value_or,
};
pub use state::{
    Caller, Flags, FsBase, MaskRegister, VectorControl, VectorRegister, mask_register,
    vector_register,
};
pub use system_call::{SystemCallArgument, SystemCallNumber, SystemCallPoint, SystemCallResult};
pub use tool::{Delivery, Tool};
pub use unspool_binary::{Module, Section, SourceLine};
pub use unspool_events::AccessKind;
pub use unspool_instructions::operands::{MemoryOperand, RegisterUse, Shape};
pub use unspool_instrument::image_at;
pub use unspool_instrument::images::{self, ImageKind};
pub use unspool_instrument::{
    Annotation, AtomicKind, Branch, CallMemory, Completeness, Consumption, Context, Counter,
    Effect, Mapping, MappingCause, MappingChange, ShadowError, ShadowStore, ShadowTest, Side,
    Signal, SignalOrigin, StoppedThread, Switch, SyncObject, SyncOperation, Synchronisation,
    SystemCall, ThreadInfo, Version, rarely,
};
pub use unspool_kernel::lock;
pub use world::{
    instrument_again, instrument_range_again, raise_signal, read_memory, read_word, spawn,
    stop_the_world, write_memory,
};
