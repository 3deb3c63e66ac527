//! Brings a program into this process, as the kernel's `execve` would into a new one.
//!
//! [`load()`] maps an unmodified x86-64 ELF program and the dynamic loader that it names
//! beside the engine, and builds the initial stack (arguments, environment, auxiliary
//! vector). What remains is to start at [`LoadedProgram::entry`] with the stack pointer
//! at [`LoadedProgram::stack_pointer`]. [`resolve()`] finds a program as `execvp` would, and
//! [`check()`] says what `execve` would say of a file, without mapping anything.
//!
//! The rules are those of Linux (`fs/exec.c`, `fs/binfmt_elf.c`, `fs/binfmt_script.c`),
//! except for these:
//!
//! - Code goes below 2 GiB where there is room, so that the translator reaches it with
//!   32-bit displacements. See [`LoadRequest::pie_base`].
//! - The stack begins where the engine leaves the process's: what the kernel has put on it for
//!   the engine (the same arguments and environment) counts towards `RLIMIT_STACK`.
//! - Segments that reach beyond the end of their file, or that overlap, are refused.
//! - Set-user-id, set-group-id and file capabilities have no effect, but are reported.
//! - Formats registered with `binfmt_misc` are not known here; such a file is refused
//!   with `ENOEXEC`, although the kernel may be able to run it.
//!
//! **Invariant:** program files are untrusted. Nothing here panics on their contents, and
//! nothing is mapped before all headers have been checked.

mod auxv;
mod check;
mod elf;
mod error;
mod executable;
mod image;
mod layout;
mod load;
mod memory;
mod resolve;
mod sanitizer;
mod script;
mod stack;
mod stack_region;
#[cfg(test)]
mod tests;

pub use check::{ExecutableKind, can_open, check};
pub use error::LoadError;
pub use executable::Privileges;
pub use image::MappedSegment;
pub use load::{LoadRequest, LoadedProgram, Prepared, Vdso, load, prepare};
pub use resolve::resolve;
pub use sanitizer::Sanitizers;
pub use stack_region::ProgramStack;
