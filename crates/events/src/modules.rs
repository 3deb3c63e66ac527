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

/// A number that the observer measured of its own run: of time, memory or code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// What was measured, the unit last: `translated_code_bytes`.
    pub name: String,
    /// How much it was.
    pub value: u64,
}
