//! A memory access as an analysis sees it.

/// What an access does to memory. An instruction that reads and writes the same operand
/// (`add [m], r`) makes two accesses: the read, then the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessKind {
    /// Memory is read.
    Read = 0,
    /// Memory is written.
    Write = 1,
}

/// Facts about an access, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AccessFlags(pub u8);

impl AccessFlags {
    /// The instruction is atomic: locked, or `xchg` with memory.
    pub const ATOMIC: AccessFlags = AccessFlags(1);
    /// The compare-and-swap failed; its write (if present at all) stored the old value.
    pub const FAILED_CAS: AccessFlags = AccessFlags(2);
    /// The first access of its instruction.
    pub const FIRST: AccessFlags = AccessFlags(4);
    /// The instruction asks that the data bypass the caches (`movnti` and its kin).
    pub const NON_TEMPORAL: AccessFlags = AccessFlags(8);
    /// A write by which a call leaves its return address on the stack, or the read by which a return
    /// takes it from there.
    pub const RETURN_ADDRESS: AccessFlags = AccessFlags(16);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn contains(self, other: AccessFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: AccessFlags) -> AccessFlags {
        AccessFlags(self.0 | other.0)
    }
}

/// One access by one instruction. The accesses of an instruction follow each other, reads
/// first, and share `time` and `pc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// Time in the trace's [`crate::Order`].
    pub time: u64,
    /// Address of the instruction.
    pub pc: u64,
    /// First byte accessed.
    pub address: u64,
    /// Bytes accessed.
    pub size: u32,
    /// Read or write.
    pub kind: AccessKind,
    /// Further facts.
    pub flags: AccessFlags,
}
