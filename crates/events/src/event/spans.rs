//! The stream `spans`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};
use crate::id::FunctionId;

/// The thread enters or leaves something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// A traced function was called.
    FunctionCall {
        /// Which function.
        function: FunctionId,
        /// The stack pointer on entry: matches the call with its return.
        stack_pointer: u64,
        /// The first three integer arguments (rdi, rsi, rdx).
        arguments: [u64; 3],
    },
    /// A traced function returned.
    FunctionReturn {
        /// Which function.
        function: FunctionId,
        /// The stack pointer that its call had on entry.
        stack_pointer: u64,
        /// rax.
        value: u64,
        /// What it has left where its first argument points, of functions that give their result
        /// there.
        stored: Option<u64>,
    },
    /// A region of interest starts.
    RegionStart,
    /// A region of interest ends.
    RegionEnd,
}

impl Record for Span {
    const STREAM: KnownStream = KnownStream::Spans;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        match self {
            Span::FunctionCall {
                function,
                stack_pointer,
                arguments,
            } => {
                words.extend([u64::from(function.0), *stack_pointer]);
                words.extend(arguments);
                1
            }
            Span::FunctionReturn {
                function,
                stack_pointer,
                value,
                stored,
            } => {
                words.extend([u64::from(function.0), *stack_pointer, *value]);
                words.extend(stored);
                2
            }
            Span::RegionStart => 3,
            Span::RegionEnd => 4,
        }
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Span, Unreadable> {
        Ok(match kind {
            1 => Span::FunctionCall {
                function: FunctionId(fields.number()?),
                stack_pointer: fields.word()?,
                arguments: fields.array()?,
            },
            2 => Span::FunctionReturn {
                function: FunctionId(fields.number()?),
                stack_pointer: fields.word()?,
                value: fields.word()?,
                stored: fields.word().ok(),
            },
            3 => Span::RegionStart,
            4 => Span::RegionEnd,
            _ => return Err(Unreadable::Kind),
        })
    }
}
