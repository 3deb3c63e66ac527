//! The one place that knows program files (ELF): which functions a file has, where they
//! begin and end, what they are called, which line of the source an instruction comes from,
//! and how addresses in the file, in memory and offsets in the file relate.
//!
//! A [`Module`] is read once and then answers questions without touching the file again.
//! You supply a path (or the bytes, for what has no file, such as the vdso) and, to speak
//! about addresses of a running program, the [`LoadBias`] of the module there, which
//! [`Module::bias_of_mapping`] works out from any one of its mappings.
//!
//! Files are untrusted: whatever they contain, nothing here panics or allocates more than
//! a small multiple of the file's size. What could not be read is told by
//! [`Module::problems`]; what could be is used.
//!
//! Not for: loading programs (that is the engine's loader), unwinding.
//!
//! ```
//! use std::path::Path;
//! use unspool_binary::{FunctionNames, Module};
//!
//! let module = Module::open(Path::new("/proc/self/exe"))?;
//! let names = FunctionNames::parse("main\nstd::rt::lang_start\n");
//! for found in module.functions_named(&names) {
//!     let function = found.function;
//!     println!("{} is at {}", function.name(), function.address());
//!     let (inside, offset) = module.function_at(function.address()).expect("a function");
//!     assert_eq!((inside.address(), offset), (function.address(), 0));
//! }
//! # Ok::<(), unspool_binary::ModuleError>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod atomic_variables;
mod debug_file;
mod debug_units;
mod demangle;
mod elf_file;
mod error;
mod frame_information;
mod function;
mod function_names;
mod headers;
mod minimal_debug_data;
mod module;
mod notes;
mod sections;
mod segments;
mod source_lines;
mod symbol_tables;
mod symbols;
mod variables;

pub use address::{FileAddress, FileOffset, LoadBias, RuntimeAddress};
pub use atomic_variables::{AtomicVariables, LeftOpen};
pub use debug_file::{DebugInformation, build_id_of};
pub use demangle::demangle;
pub use error::{ModuleError, Problem};
pub use frame_information::{FrameInformation, LoadedBytes};
pub use function::{Function, FunctionKind};
pub use function_names::{FoundFunction, FunctionNames};
pub use module::Module;
pub use sections::Section;
pub use segments::Segment;
pub use source_lines::{SourceFrame, SourceLine, SourceLines};
pub use symbol_tables::SymbolTables;
pub use variables::{Variable, Variables};
