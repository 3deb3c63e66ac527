//! Why a program could not be loaded, for people and for the program's own `execve`.

use std::io;
use std::path::{Path, PathBuf};

/// Why a program cannot be loaded. Every case names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such file.
    #[error("{}: no such file", path.display())]
    NotFound {
        /// The file asked for.
        path: PathBuf,
    },
    /// No directory of the search path holds an executable of that name.
    #[error("{}: not found in PATH ({})", program.display(), directories.display())]
    NotInPath {
        /// The name asked for.
        program: PathBuf,
        /// The directories, separated by colons.
        directories: PathBuf,
    },
    /// The file may not be executed.
    #[error("{}: not executable: no execute permission, or its file system is mounted noexec", path.display())]
    NotExecutable {
        /// The file asked for.
        path: PathBuf,
    },
    /// The file may be executed but not read. The kernel could run it; a translator cannot.
    #[error("{}: may be executed but not read, and to translate it means to read it", path.display())]
    Unreadable {
        /// The file asked for.
        path: PathBuf,
    },
    /// A directory was named.
    #[error("{}: is a directory", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A device, pipe or socket was named.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The file asked for.
        path: PathBuf,
    },
    /// The system refused to open or read the file.
    #[error("{}: cannot {operation}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no program.
    #[error("{}: not a program that Linux can start: {looks_like}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        looks_like: &'static str,
    },
    /// A 32-bit program.
    #[error(
        "{}: this is a 32-bit ({architecture}) program, and only 64-bit x86-64 programs can be \
         observed: build it without -m32 or -mx32, or run it on its own", path.display()
    )]
    Elf32 {
        /// The file.
        path: PathBuf,
        /// Its architecture.
        architecture: &'static str,
    },
    /// A program for another processor.
    #[error(
        "{}: this program is for another processor ({architecture}), and only x86-64 programs \
         can be observed: use a build for x86-64", path.display()
    )]
    ForeignMachine {
        /// The file.
        path: PathBuf,
        /// Its architecture.
        architecture: String,
    },
    /// The file ends before what its headers announce.
    #[error("{}: the file is cut off: {reason}", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The ELF headers contradict themselves or the system's rules.
    #[error("{}: damaged ELF headers: {reason}", path.display())]
    BadHeaders {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The segments to be loaded contradict each other or the system's rules.
    #[error("{}: its segments cannot be loaded: {reason}", path.display())]
    BadSegments {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The dynamic loader or script interpreter that the file names does not exist.
    #[error(
        "{}: needs {}, which does not exist here: install what provides it, or use a build of \
         the program for this system", path.display(), interpreter.display()
    )]
    MissingInterpreter {
        /// The file.
        path: PathBuf,
        /// The interpreter that it names.
        interpreter: PathBuf,
    },
    /// The dynamic loader that the file names cannot be used.
    #[error("{}: its loader {} cannot be used: {reason}", path.display(), interpreter.display())]
    BadInterpreter {
        /// The file.
        path: PathBuf,
        /// The loader that it names.
        interpreter: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Scripts whose interpreters are scripts, more than the kernel follows.
    #[error("{}: its interpreter is a script whose interpreter is a script, too many times over", path.display())]
    ScriptLoop {
        /// The first script.
        path: PathBuf,
    },
    /// Arguments and environment exceed what the kernel passes on.
    #[error(
        "{}: arguments and environment are too long: {size} bytes, of at most {limit} (a quarter \
         of the stack limit, `ulimit -s`; at most 131072 for one string)", path.display()
    )]
    TooLong {
        /// The program.
        path: PathBuf,
        /// Bytes of the string or of all strings and pointers.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Addresses that the program insists on are in use.
    #[error("{}: must be at {start:#x} to {end:#x}, but those addresses are in use", path.display())]
    AddressInUse {
        /// The program, which is not position-independent.
        path: PathBuf,
        /// First address needed.
        start: u64,
        /// Address after the last.
        end: u64,
    },
    /// The system refused to map the program or its stack.
    #[error("{}: cannot {operation} ({size:#x} bytes at {address:#x})", path.display())]
    Map {
        /// The program.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// Where; 0 for anywhere.
        address: u64,
        /// Bytes.
        size: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A system call that has to do with no file failed.
    #[error("{}: cannot {operation}", path.display())]
    System {
        /// The program.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl LoadError {
    /// What the kernel's `execve` would have returned, as a positive errno.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            LoadError::NotFound { .. }
            | LoadError::NotInPath { .. }
            | LoadError::MissingInterpreter { .. } => libc::ENOENT,
            LoadError::NotExecutable { .. }
            | LoadError::Unreadable { .. }
            | LoadError::IsDirectory { .. }
            | LoadError::NotRegular { .. } => libc::EACCES,
            LoadError::NotElf { .. }
            | LoadError::Elf32 { .. }
            | LoadError::ForeignMachine { .. }
            | LoadError::Truncated { .. }
            | LoadError::BadHeaders { .. } => libc::ENOEXEC,
            LoadError::BadSegments { .. } => libc::EINVAL,
            LoadError::BadInterpreter { .. } => libc::ELIBBAD,
            LoadError::ScriptLoop { .. } => libc::ELOOP,
            LoadError::TooLong { .. } => libc::E2BIG,
            LoadError::AddressInUse { .. } => libc::ENOMEM,
            LoadError::File { source, .. }
            | LoadError::Map { source, .. }
            | LoadError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// What is wrong with an ELF file, before it is known in which role the file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Defect {
    Truncated(String),
    Headers(String),
    Segments(String),
}

impl Defect {
    /// The error, where the file is the program itself.
    pub(crate) fn of_program(self, path: &Path) -> LoadError {
        let path = path.to_owned();
        match self {
            Defect::Truncated(reason) => LoadError::Truncated { path, reason },
            Defect::Headers(reason) => LoadError::BadHeaders { path, reason },
            Defect::Segments(reason) => LoadError::BadSegments { path, reason },
        }
    }

    /// The reason, where the file is a program's dynamic loader.
    pub(crate) fn reason(self) -> String {
        match self {
            Defect::Truncated(reason) => format!("the file is cut off: {reason}"),
            Defect::Headers(reason) | Defect::Segments(reason) => reason,
        }
    }
}
