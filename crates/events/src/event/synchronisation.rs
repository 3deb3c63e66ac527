//! The stream `synchronisation`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};

/// How threads are made to wait for one another, as the engine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SyncOperation {
    /// A thread was created; the object is its [`crate::ThreadId`].
    ThreadCreate = 0,
    /// A futex word was waited on, and the wait has ended. The object is its address.
    FutexWait = 1,
    /// Waiters of a futex word were woken. The object is its address.
    FutexWake = 2,
    /// A thread's end is about to be announced at its clear-tid address, which is the object
    /// (what `join` waits for); 0 where it has none.
    ThreadExit = 3,
    /// A `membarrier` or another system call that orders memory. The object is the call's number.
    SystemCall = 4,
}

impl SyncOperation {
    /// The inverse of `operation as u64`.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<SyncOperation> {
        [
            SyncOperation::ThreadCreate,
            SyncOperation::FutexWait,
            SyncOperation::FutexWake,
            SyncOperation::ThreadExit,
            SyncOperation::SystemCall,
        ]
        .into_iter()
        .find(|operation| *operation as u64 == value)
    }
}

/// Threads synchronised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synchronisation {
    /// How.
    pub operation: SyncOperation,
    /// On what.
    pub object: u64,
}

impl Record for Synchronisation {
    const STREAM: KnownStream = KnownStream::Synchronisation;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        words.extend([self.operation as u64, self.object]);
        1
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Synchronisation, Unreadable> {
        if kind != 1 {
            return Err(Unreadable::Kind);
        }
        Ok(Synchronisation {
            operation: fields.one_of(SyncOperation::from_u64)?,
            object: fields.word()?,
        })
    }
}
