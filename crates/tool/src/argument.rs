//! What a function can be called with: typed sources, and the types of their values.

use std::fmt;

use crate::function::Value;
use crate::moment::{AtInstruction, Moment};

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

/// Where an argument's value comes from, each time a call is made at a moment `M`.
pub trait Argument<M: Moment = AtInstruction> {
    /// The type of the value.
    type Value: 'static;
    /// Whether the value is the word that inserted code has, its lowest part, or the bytes of a vector
    /// register: only such arguments can be fields of an [`Entry`](crate::Entry).
    const IS_WORD: bool = true;
    /// What to insert: at an instruction, if the moment is [`AtInstruction`].
    fn source(&self, site: M::Site<'_>) -> M::Source;
    /// The value, from the word that inserted code passes and the argument's number.
    fn value(word: u64, number: usize) -> Self::Value;
}

/// The same value each time.
#[derive(Debug, Clone, Copy)]
pub struct Constant<V>(pub V);

impl<V: Word, M: Moment> Argument<M> for Constant<V> {
    type Value = V;

    fn source(&self, _: M::Site<'_>) -> M::Source {
        M::constant(self.0.to_word())
    }

    fn value(word: u64, _: usize) -> V {
        V::from_word(word)
    }
}

/// A source of which the word is the value, at instructions or at another moment.
macro_rules! word_argument {
    ($source:ty => $value:ty, $word:expr) => {
        word_argument!($source => $value, $crate::moment::AtInstruction, $word);
    };
    ($source:ty => $value:ty, $moment:ty, $word:expr) => {
        impl Argument<$moment> for $source {
            type Value = $value;

            fn source(
                &self,
                site: <$moment as $crate::moment::Moment>::Site<'_>,
            ) -> <$moment as $crate::moment::Moment>::Source {
                let word: fn(
                    &$source,
                    <$moment as $crate::moment::Moment>::Site<'_>,
                ) -> <$moment as $crate::moment::Moment>::Source = $word;
                word(self, site)
            }

            fn value(word: u64, _: usize) -> $value {
                <$value>::from_word(word)
            }
        }
    };
}

pub(crate) use word_argument;

/// The arguments of a call: up to ten sources in a tuple, six at routines.
pub trait Arguments<M: Moment = AtInstruction> {
    /// The types of their values, in a tuple.
    type Values;
    /// How many there are.
    const COUNT: usize;
    /// Whether all of them are words (see [`Argument::IS_WORD`]).
    const ARE_WORDS: bool;
    /// What to insert.
    fn sources(&self, site: M::Site<'_>) -> Vec<M::Source>;
    /// The values.
    fn values(words: &M::Words) -> Self::Values;
}

/// A function of a tool that can be called with certain values: it gets the tool, what the
/// tool keeps for the thread, and the values. One that decides whether another one is called
/// returns `bool`, others nothing.
pub trait Analysis<T, S, V, R: Value = ()>: Copy + 'static {
    /// Calls it.
    fn call(self, tool: &T, state: &mut S, values: V) -> R;
}

macro_rules! tuples {
    ($($source:ident $number:tt),*) => {
        impl<M: Moment, $($source: Argument<M>),*> Arguments<M> for ($($source,)*) {
            type Values = ($($source::Value,)*);
            const COUNT: usize = <[usize]>::len(&[$($number),*]);
            const ARE_WORDS: bool = true $(&& $source::IS_WORD)*;

            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            fn sources(&self, site: M::Site<'_>) -> Vec<M::Source> {
                vec![$(self.$number.source(site)),*]
            }

            #[allow(unused_variables, clippy::unused_unit, clippy::allow_attributes, reason = "one has none")]
            #[allow(clippy::inline_always, clippy::allow_attributes, reason = "see Moment::word")]
            #[inline(always)]
            fn values(words: &M::Words) -> Self::Values {
                ($($source::value(M::word(words, $number), $number),)*)
            }
        }

        impl<T, S, F, R: Value, $($source),*> Analysis<T, S, ($($source,)*), R> for F
        where
            F: Fn(&T, &mut S, $($source),*) -> R + Copy + 'static,
        {
            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            #[allow(clippy::inline_always, clippy::allow_attributes, reason = "see Moment::word")]
            #[inline(always)]
            fn call(self, tool: &T, state: &mut S, values: ($($source,)*)) -> R {
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
