//! Which program is observed, and whether its children are.

use std::ffi::OsString;

use crate::arguments::ChildrenChoice;
use crate::exit_status;
use crate::failure::Failure;

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedProgram {
    /// As it was typed: with a slash a path, without one a name to look for in PATH.
    pub(crate) program: OsString,
    /// What follows it, without the program itself.
    pub(crate) arguments: Vec<OsString>,
}

impl ObservedProgram {
    /// Splits the typed words, of which there is at least one.
    pub(crate) fn new(words: Vec<OsString>) -> Result<ObservedProgram, Failure> {
        let mut words = words.into_iter();
        let program = words.next().unwrap_or_default();
        if program.is_empty() {
            return Err(
                Failure::new("the program's name is empty").with_status(exit_status::NOT_FOUND)
            );
        }
        Ok(ObservedProgram {
            program,
            arguments: words.collect(),
        })
    }
}

/// What to do with child processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Children {
    /// Trace them.
    Follow,
    /// Let them run natively.
    Leave,
}

impl From<ChildrenChoice> for Children {
    fn from(typed: ChildrenChoice) -> Children {
        match typed {
            ChildrenChoice::Follow => Children::Follow,
            ChildrenChoice::Leave => Children::Leave,
        }
    }
}
