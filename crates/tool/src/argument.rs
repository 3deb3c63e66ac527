//! What a function can be called with: typed sources, and the types of their values.

use std::fmt;

use unspool_engine::instrument::{self, Branch};
use unspool_engine::operands::{MemoryOperand, Shape};

/// An address of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Address(pub u64);

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// A value that can be an argument: it fits in 64 bits.
pub trait Word: Copy + 'static {
    /// The value as a word.
    fn to_word(self) -> u64;
    /// The inverse of [`Word::to_word`].
    fn from_word(word: u64) -> Self;
}

macro_rules! words {
    ($($number:ty),*) => {$(
        impl Word for $number {
            fn to_word(self) -> u64 {
                self as u64
            }

            fn from_word(word: u64) -> $number {
                word as $number
            }
        }
    )*};
}

words!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Word for bool {
    fn to_word(self) -> u64 {
        u64::from(self)
    }

    fn from_word(word: u64) -> bool {
        word != 0
    }
}

impl Word for Address {
    fn to_word(self) -> u64 {
        self.0
    }

    fn from_word(word: u64) -> Address {
        Address(word)
    }
}

/// Where an argument's value comes from, each time the call is made.
pub trait Argument {
    /// The type of the value.
    type Value: Word;
    /// What to insert, at an instruction.
    fn source(&self, instruction: &instrument::Instruction) -> instrument::Argument;
}

/// The same value each time.
#[derive(Debug, Clone, Copy)]
pub struct Constant<V>(pub V);

impl<V: Word> Argument for Constant<V> {
    type Value = V;

    fn source(&self, _: &instrument::Instruction) -> instrument::Argument {
        instrument::Argument::Constant(self.0.to_word())
    }
}

/// The address of the instruction.
#[derive(Debug, Clone, Copy)]
pub struct InstructionPointer;

impl Argument for InstructionPointer {
    type Value = Address;

    fn source(&self, instruction: &instrument::Instruction) -> instrument::Argument {
        instrument::Argument::Constant(instruction.address())
    }
}

/// The value of a general register, all 64 bits of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of the registers")]
pub enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Argument for Register {
    type Value = u64;

    fn source(&self, _: &instrument::Instruction) -> instrument::Argument {
        instrument::Argument::Register(*self as u8)
    }
}

/// The address of an operand in memory. See [`effective_address`].
#[derive(Debug, Clone, Copy)]
pub struct EffectiveAddress(MemoryOperand);

/// Where an operand of [`memory_operands`](instrument::Instruction::memory_operands) lies: the
/// address of its first byte in the direction in which it is accessed, as the registers have it
/// at the place of the call. Before the instruction this is the address that it will access.
///
/// `None` for operands whose address does not follow from general registers and constants alone
/// (gathers and scatters, tiles, bit strings, and lines of the cache).
#[must_use]
pub fn effective_address(operand: &MemoryOperand) -> Option<EffectiveAddress> {
    let plain = !matches!(
        operand.shape,
        Shape::Indexed { .. } | Shape::Tile { .. } | Shape::BitString { .. } | Shape::AlignedDown
    );
    plain.then_some(EffectiveAddress(*operand))
}

impl Argument for EffectiveAddress {
    type Value = Address;

    fn source(&self, _: &instrument::Instruction) -> instrument::Argument {
        instrument::Argument::Address(self.0)
    }
}

/// Whether the conditional jump before which the place is will be taken. See [`branch_taken`].
#[derive(Debug, Clone, Copy)]
pub struct BranchTaken(());

/// Whether an instruction will be taken, for calls before it; `None` if it is not a jump that
/// depends on flags.
#[must_use]
pub fn branch_taken(instruction: &instrument::Instruction) -> Option<BranchTaken> {
    let conditional = instruction.branch() == Some(Branch::Conditional);
    (conditional && instruction.decoded().is_jcc_short_or_near()).then_some(BranchTaken(()))
}

impl Argument for BranchTaken {
    type Value = bool;

    fn source(&self, instruction: &instrument::Instruction) -> instrument::Argument {
        assert!(
            branch_taken(instruction).is_some(),
            "`{}` is not a conditional jump",
            instruction.disassembly()
        );
        instrument::Argument::Taken
    }
}

/// The arguments of a call: up to six sources in a tuple.
pub trait Arguments {
    /// The types of their values, in a tuple.
    type Values;
    /// What to insert, at an instruction.
    fn sources(
        &self,
        instruction: &instrument::Instruction,
    ) -> [Option<instrument::Argument>; instrument::MOST_ARGUMENTS];
    /// The values.
    fn values(words: &[u64; instrument::MOST_ARGUMENTS]) -> Self::Values;
}

/// A function of a tool that can be called with certain values: it gets the tool, what the
/// tool keeps for the thread, and the values.
pub trait Analysis<T, S, V>: Copy + 'static {
    /// Calls it.
    fn call(self, tool: &T, state: &mut S, values: V);
}

macro_rules! tuples {
    ($($source:ident $number:tt),*) => {
        impl<$($source: Argument),*> Arguments for ($($source,)*) {
            type Values = ($($source::Value,)*);

            #[allow(unused_mut, unused_variables, clippy::allow_attributes, reason = "one has none")]
            fn sources(
                &self,
                instruction: &instrument::Instruction,
            ) -> [Option<instrument::Argument>; instrument::MOST_ARGUMENTS] {
                let mut sources = [None; instrument::MOST_ARGUMENTS];
                $(sources[$number] = Some(self.$number.source(instruction));)*
                sources
            }

            #[allow(unused_variables, clippy::unused_unit, clippy::allow_attributes, reason = "one has none")]
            fn values(words: &[u64; instrument::MOST_ARGUMENTS]) -> Self::Values {
                ($($source::Value::from_word(words[$number]),)*)
            }
        }

        impl<T, S, F, $($source),*> Analysis<T, S, ($($source,)*)> for F
        where
            F: Fn(&T, &mut S, $($source),*) + Copy + 'static,
        {
            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            fn call(self, tool: &T, state: &mut S, values: ($($source,)*)) {
                self(tool, state, $(values.$number),*);
            }
        }
    };
}

tuples!();
tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, G 5);
