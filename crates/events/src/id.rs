//! One type for each kind of identifier, so that they cannot be mixed up.

pub use unspool_container::ThreadId;

/// An executable or library mapped into the program: an index into the module table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ModuleId(pub u32);

/// A function whose calls are traced: an index into the function table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FunctionId(pub u32);

/// A path through a superblock, from its entry to one of its exits: what a raw record
/// names. See [`crate::superblock::Superblock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u32);
