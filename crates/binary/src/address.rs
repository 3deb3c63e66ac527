//! One type for each space in which code has a position, so that they cannot be mixed up.

use std::fmt;

/// A position in a file, in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileOffset(pub u64);

/// An address as the file's own tables give it: where the linker put things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileAddress(pub u64);

/// An address in a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RuntimeAddress(pub u64);

/// What to add to a module's [`FileAddress`]es to get its [`RuntimeAddress`]es, modulo 2^64.
/// 0 for programs linked to fixed addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LoadBias(pub u64);

impl FileAddress {
    /// Where this address is in a program.
    #[must_use]
    pub fn in_program(self, bias: LoadBias) -> RuntimeAddress {
        RuntimeAddress(self.0.wrapping_add(bias.0))
    }
}

impl RuntimeAddress {
    /// Which address this is in the module's file.
    #[must_use]
    pub fn in_file(self, bias: LoadBias) -> FileAddress {
        FileAddress(self.0.wrapping_sub(bias.0))
    }
}

impl fmt::Display for FileOffset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

impl fmt::Display for FileAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

impl fmt::Display for RuntimeAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}
