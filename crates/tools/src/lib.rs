//! The tools that come with `unspool`: each short enough to read in a minute, and a place to
//! start from for another one.
//!
//! `unspool tool list` names them, `unspool tool run NAME -- PROGRAM` runs them.
#![forbid(unsafe_code)]

pub mod instruction_count;

/// A tool that comes with `unspool`.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it tells, in one line.
    pub about: &'static str,
    /// Has the program that is going to be run in this process observed by it.
    pub install: fn(),
}

/// All of them.
pub const ALL: &[Shipped] = &[Shipped {
    name: "instruction-count",
    about: "How many instructions the program executes",
    install: || unspool_tool::install(instruction_count::InstructionCount::new()),
}];
