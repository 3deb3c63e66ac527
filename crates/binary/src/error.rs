//! Why a file could not be read, wholly or in part.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a file is of no use at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The system refused to open the file.
    #[error("{}: cannot open it", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not ELF, or too damaged to find anything in it.
    #[error("{}: not a readable ELF file: {reason}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An ELF file for something other than x86-64.
    #[error("{}: an ELF file, but not for x86-64", path.display())]
    OtherMachine {
        /// The file.
        path: PathBuf,
    },
}

impl ModuleError {
    /// Whether there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        let ModuleError::Open { source, .. } = self else {
            return false;
        };
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        kinds.contains(&source.kind())
    }
}

/// A part of a file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Which part, for people.
    pub part: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.part, self.reason)
    }
}

/// A value or, if there is none, a problem more.
pub(crate) fn noted<T>(
    result: object::read::Result<T>,
    part: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            problems.push(Problem {
                part,
                reason: error.to_string(),
            });
            None
        }
    }
}
