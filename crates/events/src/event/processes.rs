//! The stream `processes`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};

/// What becomes of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEvent {
    /// The thread forked (or vforked) a child process.
    Fork {
        /// The kernel's id of the child.
        child: u32,
    },
    /// The process is about to become another program.
    Exec,
}

impl Record for ProcessEvent {
    const STREAM: KnownStream = KnownStream::Processes;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        match self {
            ProcessEvent::Fork { child } => {
                words.push(u64::from(*child));
                1
            }
            ProcessEvent::Exec => 2,
        }
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<ProcessEvent, Unreadable> {
        Ok(match kind {
            1 => ProcessEvent::Fork {
                child: fields.number()?,
            },
            2 => ProcessEvent::Exec,
            _ => return Err(Unreadable::Kind),
        })
    }
}
