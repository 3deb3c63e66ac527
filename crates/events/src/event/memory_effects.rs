//! The stream `memory-effects`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};

/// The kernel read or wrote program memory on behalf of the thread, at some time
/// between the system call's entry and exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryEffect {
    /// Whether the kernel wrote it.
    pub write: bool,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

impl Record for MemoryEffect {
    const STREAM: KnownStream = KnownStream::MemoryEffects;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        words.extend([u64::from(self.write), self.address, self.size]);
        1
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<MemoryEffect, Unreadable> {
        if kind != 1 {
            return Err(Unreadable::Kind);
        }
        Ok(MemoryEffect {
            write: fields.word()? != 0,
            address: fields.word()?,
            size: fields.word()?,
        })
    }
}
