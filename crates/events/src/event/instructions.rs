//! The stream `instructions`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};
use crate::cache_control::{Fence, LineOperation};

/// An instruction did something that is no access. Most of these records are not in the file: the
/// code that was executed says them (see [`crate::superblock`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionEvent {
    /// It flushed or prefetched a line of the caches, or asked for that.
    CacheLine {
        /// What it did.
        operation: LineOperation,
        /// Address of the instruction.
        pc: u64,
        /// The byte whose line it is.
        address: u64,
    },
    /// It was a fence.
    Fence {
        /// Which.
        fence: Fence,
        /// Address of the instruction.
        pc: u64,
    },
    /// It was executed. Only where that was asked for.
    Fetch {
        /// Its address.
        pc: u64,
        /// Its bytes.
        size: u8,
    },
}

impl Record for InstructionEvent {
    const STREAM: KnownStream = KnownStream::Instructions;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        match *self {
            InstructionEvent::CacheLine {
                operation,
                pc,
                address,
            } => {
                words.extend([operation as u64, pc, address]);
                1
            }
            InstructionEvent::Fence { fence, pc } => {
                words.extend([fence as u64, pc]);
                2
            }
            InstructionEvent::Fetch { pc, size } => {
                words.extend([pc, u64::from(size)]);
                3
            }
        }
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<InstructionEvent, Unreadable> {
        Ok(match kind {
            1 => InstructionEvent::CacheLine {
                operation: fields.one_of(LineOperation::from_u64)?,
                pc: fields.word()?,
                address: fields.word()?,
            },
            2 => InstructionEvent::Fence {
                fence: fields.one_of(Fence::from_u64)?,
                pc: fields.word()?,
            },
            3 => InstructionEvent::Fetch {
                pc: fields.word()?,
                size: fields.number()?,
            },
            _ => return Err(Unreadable::Kind),
        })
    }
}
