//! What a function can be called with: typed sources, and the types of their values.

use std::fmt;

use unspool_engine::instrument;

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
    type Value: 'static;
    /// Whether the value is the word that inserted code has, or its lowest part: only such
    /// arguments can be fields of an [`Entry`](crate::Entry).
    const IS_WORD: bool = true;
    /// What to insert, at an instruction.
    fn source(&self, instruction: &instrument::Instruction) -> instrument::Argument;
    /// The value, from the word that inserted code passes and the argument's number.
    fn value(word: u64, number: usize) -> Self::Value;
}

/// The same value each time.
#[derive(Debug, Clone, Copy)]
pub struct Constant<V>(pub V);

impl<V: Word> Argument for Constant<V> {
    type Value = V;

    fn source(&self, _: &instrument::Instruction) -> instrument::Argument {
        instrument::Argument::Constant(self.0.to_word())
    }

    fn value(word: u64, _: usize) -> V {
        V::from_word(word)
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

    fn value(word: u64, _: usize) -> Address {
        Address(word)
    }
}

/// The words that inserted code passes for the arguments of a call.
#[derive(Debug, Clone, Copy)]
pub struct Words(pub(crate) [u64; instrument::REGISTER_ARGUMENTS]);

impl Words {
    /// That of an argument. (The number is a constant wherever this is called, and nothing of it is
    /// left: functions that are called often must be short.)
    #[expect(clippy::inline_always, reason = "see above")]
    #[inline(always)]
    fn get(&self, number: usize) -> u64 {
        match self.0.get(number) {
            Some(&word) => word,
            // SAFETY: the words are this thread's, and only inserted code writes them.
            None => unsafe { instrument::argument_word(number).read() },
        }
    }
}

/// The arguments of a call: up to ten sources in a tuple.
pub trait Arguments {
    /// The types of their values, in a tuple.
    type Values;
    /// Whether all of them are words (see [`Argument::IS_WORD`]).
    const ARE_WORDS: bool;
    /// What to insert, at an instruction.
    fn sources(&self, instruction: &instrument::Instruction) -> Vec<instrument::Argument>;
    /// The values.
    fn values(words: &Words) -> Self::Values;
}

/// A function of a tool that can be called with certain values: it gets the tool, what the
/// tool keeps for the thread, and the values.
pub trait Analysis<T, S, V>: Copy + 'static {
    /// Calls it.
    fn call(self, tool: &T, state: &mut S, values: V);
}

/// A function of a tool that decides whether another one is called.
pub trait Test<T, S, V>: Copy + 'static {
    /// Calls it.
    fn call(self, tool: &T, state: &mut S, values: V) -> bool;
}

macro_rules! tuples {
    ($($source:ident $number:tt),*) => {
        impl<$($source: Argument),*> Arguments for ($($source,)*) {
            type Values = ($($source::Value,)*);
            const ARE_WORDS: bool = true $(&& $source::IS_WORD)*;

            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            fn sources(
                &self,
                instruction: &instrument::Instruction,
            ) -> Vec<instrument::Argument> {
                vec![$(self.$number.source(instruction)),*]
            }

            #[allow(unused_variables, clippy::unused_unit, clippy::allow_attributes, reason = "one has none")]
            #[allow(clippy::inline_always, clippy::allow_attributes, reason = "see Words::get")]
            #[inline(always)]
            fn values(words: &Words) -> Self::Values {
                ($($source::value(words.get($number), $number),)*)
            }
        }

        impl<T, S, F, $($source),*> Analysis<T, S, ($($source,)*)> for F
        where
            F: Fn(&T, &mut S, $($source),*) + Copy + 'static,
        {
            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            #[allow(clippy::inline_always, clippy::allow_attributes, reason = "see Words::get")]
            #[inline(always)]
            fn call(self, tool: &T, state: &mut S, values: ($($source,)*)) {
                self(tool, state, $(values.$number),*);
            }
        }

        impl<T, S, F, $($source),*> Test<T, S, ($($source,)*)> for F
        where
            F: Fn(&T, &mut S, $($source),*) -> bool + Copy + 'static,
        {
            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            #[allow(clippy::inline_always, clippy::allow_attributes, reason = "see Words::get")]
            #[inline(always)]
            fn call(self, tool: &T, state: &mut S, values: ($($source,)*)) -> bool {
                self(tool, state, $(values.$number),*)
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
tuples!(A 0, B 1, C 2, D 3, E 4, G 5, H 6);
tuples!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7);
tuples!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8);
tuples!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9);
