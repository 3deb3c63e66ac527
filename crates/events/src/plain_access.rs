//! Accesses that a piece of code makes each time, at addresses that recorded words give.

use crate::access::{AccessFlags, AccessKind};
use crate::superblock::Slot;

/// An access that code makes in each of its executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainAccess {
    /// Address of the instruction.
    pub pc: u64,
    /// First byte accessed, without the recorded word.
    pub(crate) offset: u64,
    /// Bytes accessed.
    pub size: u32,
    /// Which of the code's accessing instructions it belongs to, from 0.
    pub(crate) instruction: u16,
    /// The recorded word in the address, if there is one.
    pub(crate) slot: Option<Slot>,
    /// Read or write.
    pub kind: AccessKind,
    /// Further facts. It is never atomic.
    pub flags: AccessFlags,
}

impl PlainAccess {
    /// Which of the recorded words is in the address, if one is.
    #[must_use]
    pub fn word(&self) -> Option<Slot> {
        self.slot
    }

    /// The first byte accessed, without the recorded word.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The first byte accessed in an execution with these words, which must be its code's.
    #[inline]
    #[must_use]
    pub fn address(&self, words: &[u64]) -> u64 {
        let word = self.slot.map_or(0, |slot| words[usize::from(slot)]);
        word.wrapping_add(self.offset)
    }
}
