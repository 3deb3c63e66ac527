//! The stream `system-calls`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};

/// A system call begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCall {
    /// It begins.
    Entry {
        /// Its number.
        number: u32,
        /// Its six arguments.
        arguments: [u64; 6],
    },
    /// It ended.
    Exit {
        /// Its number.
        number: u32,
        /// What it returned: a value, or minus an errno.
        result: i64,
    },
}

impl Record for SystemCall {
    const STREAM: KnownStream = KnownStream::SystemCalls;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        match self {
            SystemCall::Entry { number, arguments } => {
                words.push(u64::from(*number));
                words.extend(arguments);
                1
            }
            SystemCall::Exit { number, result } => {
                words.extend([u64::from(*number), *result as u64]);
                2
            }
        }
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<SystemCall, Unreadable> {
        Ok(match kind {
            1 => SystemCall::Entry {
                number: fields.number()?,
                arguments: fields.array()?,
            },
            2 => SystemCall::Exit {
                number: fields.number()?,
                result: fields.word()? as i64,
            },
            _ => return Err(Unreadable::Kind),
        })
    }
}
