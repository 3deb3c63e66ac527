//! What tables list besides superblocks: modules and traced functions, which events name,
//! and measurements.

use crate::id::{FunctionId, ModuleId};

/// An executable or library that was mapped into the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its number, which events name.
    pub id: ModuleId,
    /// The path of its file.
    pub path: Vec<u8>,
    /// Where its first byte was mapped.
    pub base: u64,
    /// Bytes of address space from `base` to the end of its last segment.
    pub size: u64,
    /// The build-id from its notes; empty where it has none.
    pub build_id: Vec<u8>,
}

/// A function whose calls and returns are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedFunction {
    /// Its number, which events name.
    pub id: FunctionId,
    /// Its name as the symbol table has it.
    pub name: String,
    /// Its first instruction.
    pub address: u64,
}

/// What a function is that is traced because a runtime of OpenMP was given it to call: the name of such
/// a [`TracedFunction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CalledBack {
    /// What each thread of a parallel region executes.
    Region,
    /// What a task executes.
    Task,
    /// What is executed for the task that calls the runtime.
    Caller,
}

impl CalledBack {
    /// All that there are.
    pub const ALL: [CalledBack; 3] = [CalledBack::Region, CalledBack::Task, CalledBack::Caller];

    /// The name, which no symbol has.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CalledBack::Region => "(OpenMP region)",
            CalledBack::Task => "(OpenMP task)",
            CalledBack::Caller => "(OpenMP code)",
        }
    }
}

/// A number that the observer measured of its own run: of time, memory or code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// What was measured, the unit last: `translated_code_bytes`.
    pub name: String,
    /// How much it was.
    pub value: u64,
}
