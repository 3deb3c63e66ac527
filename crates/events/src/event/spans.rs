//! The stream `spans`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};
use crate::id::FunctionId;

/// How a task depends on others that name the same address: how OpenMP says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dependence {
    /// `in`: behind those that are not `in` too.
    In = 0,
    /// `out` and `inout`: behind all.
    Out = 1,
    /// `mutexinoutset`: behind those of other kinds, and never beside one of its own.
    MutexInOutSet = 2,
    /// `inoutset`: behind those of other kinds.
    InOutSet = 3,
}

impl Dependence {
    /// All kinds.
    pub const ALL: [Dependence; 4] = [
        Dependence::In,
        Dependence::Out,
        Dependence::MutexInOutSet,
        Dependence::InOutSet,
    ];

    /// The inverse of `dependence as u64`.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<Dependence> {
        let mut all = Dependence::ALL.into_iter();
        all.find(|dependence| *dependence as u64 == value)
    }

    /// As OpenMP writes it; `out` stands for `inout`, too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dependence::In => "in",
            Dependence::Out => "out",
            Dependence::MutexInOutSet => "mutexinoutset",
            Dependence::InOutSet => "inoutset",
        }
    }
}

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
    /// More of the call that is noted next in the thread, of functions for which that is wanted: the
    /// fourth to ninth integer argument.
    FurtherArguments {
        /// What they are; 0 where it cannot be read.
        arguments: [u64; 6],
    },
    /// More of the call that is noted next in the thread: what a task depends on that it makes, or
    /// waits for.
    Dependence {
        /// How.
        dependence: Dependence,
        /// On what.
        address: u64,
    },
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
            Span::FurtherArguments { arguments } => {
                words.extend(arguments);
                5
            }
            Span::Dependence {
                dependence,
                address,
            } => {
                words.extend([*dependence as u64, *address]);
                6
            }
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
            5 => Span::FurtherArguments {
                arguments: fields.array()?,
            },
            6 => Span::Dependence {
                dependence: fields.one_of(Dependence::from_u64)?,
                address: fields.word()?,
            },
            _ => return Err(Unreadable::Kind),
        })
    }
}
