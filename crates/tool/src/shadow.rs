//! Shadow memory: a word of the tool's for each piece of the program's memory.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use unspool_instructions::operands::MemoryOperand;
use unspool_instrument::{
    self as instrument, Action, ShadowCheck, ShadowError, ShadowStore, ShadowTest, WordPart,
    WordValue,
};

use crate::argument::{Analysis, Arguments, Word};
use crate::point::Point;
use crate::tool::Tool;

/// A type of words in shadow memory: `u8`, `u16`, `u32`, `u64`.
pub trait ShadowWord: Word + Debug + Eq + Send + Sync {
    /// The same, as threads share it.
    type Atomic: Debug;
    /// Loads one.
    #[doc(hidden)]
    fn load(word: &Self::Atomic) -> Self;
    /// Stores one.
    #[doc(hidden)]
    fn store(word: &Self::Atomic, value: Self);
    /// The one at an address.
    ///
    /// # Safety
    /// There must be one, for good, which is only used as an atomic one.
    #[doc(hidden)]
    unsafe fn at(address: u64) -> &'static Self::Atomic;
}

macro_rules! shadow_words {
    ($($number:ty, $atomic:ty;)*) => {$(
        impl ShadowWord for $number {
            type Atomic = $atomic;

            #[inline]
            fn load(word: &$atomic) -> $number {
                word.load(Ordering::Relaxed)
            }

            #[inline]
            fn store(word: &$atomic, value: $number) {
                word.store(value, Ordering::Relaxed);
            }

            #[inline]
            unsafe fn at(address: u64) -> &'static $atomic {
                // SAFETY: the caller's.
                unsafe { <$atomic>::from_ptr(address as *mut $number) }
            }
        }
    )*};
}

shadow_words! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// A word `W` for each `GRANULE` bytes of the program's memory, zero at first.
///
/// Inserted code tests such words and stores them ([`Point::check_shadow`], [`Point::store_shadow`]);
/// functions load and store them by [`Shadow::word`], which is inlined. Only pages of it that were
/// written take memory. It belongs to the process: a forked child has a copy. Where the program unmaps
/// memory, or maps other there, its words are zero again and their memory is given back; where it moves
/// memory (`mremap`), the words go with it. The kernel counts them against a limit of the address
/// space (`ulimit -v`), not against one of data.
///
/// Words that take more than a quarter of what they are for have not room for the whole address
/// space: then memory that is [`SPAN`](Shadow::SPAN) bytes apart shares words. What programs have
/// mapped lies in parts of the address space that do not meet so, unless they ask for certain addresses.
pub struct Shadow<W, const GRANULE: u64> {
    inner: instrument::Shadow,
    word: PhantomData<W>,
}

impl<W, const GRANULE: u64> Clone for Shadow<W, GRANULE> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W, const GRANULE: u64> Copy for Shadow<W, GRANULE> {}

impl<W, const GRANULE: u64> Debug for Shadow<W, GRANULE> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(out)
    }
}

impl<W: ShadowWord, const GRANULE: u64> Shadow<W, GRANULE> {
    /// How far apart addresses are that share a word although they are in different granules: 2⁴⁷,
    /// which no two addresses of a program are, or less (see [`Shadow`]).
    pub const SPAN: u64 = instrument::Shadow::span(size_of::<W>() as u8, GRANULE);

    /// All zero.
    ///
    /// # Errors
    /// If there is no address space.
    ///
    /// # Panics
    /// If the program runs already, or if there are four already.
    #[track_caller]
    pub fn new() -> Result<Shadow<W, GRANULE>, ShadowError> {
        const {
            assert!(
                GRANULE.is_power_of_two() && GRANULE <= 4096,
                "a word can be for 1, 2, 4 and so on up to 4096 bytes"
            );
        }
        Ok(Shadow {
            inner: instrument::Shadow::new(size_of::<W>() as u8, GRANULE)?,
            word: PhantomData,
        })
    }

    /// The word of the granule that holds an address.
    #[must_use]
    #[inline]
    pub fn word(self, address: u64) -> &'static W::Atomic {
        let granule = address % Self::SPAN / GRANULE;
        // SAFETY: there is a word for each granule of the span in the mapping, which is never unmapped,
        // and of which words are only used as atomic ones.
        unsafe { W::at(self.inner.base() + granule * size_of::<W>() as u64) }
    }

    /// What it is.
    #[must_use]
    #[inline]
    pub fn get(self, address: u64) -> W {
        W::load(self.word(address))
    }

    /// Sets the words of all granules that a range of addresses touches.
    pub fn set(self, start: u64, length: u64, value: W) {
        if length == 0 {
            return;
        }
        let last = start.saturating_add(length - 1);
        for granule in start / GRANULE..=last / GRANULE {
            W::store(self.word(granule * GRANULE), value);
        }
    }

    /// All of each word.
    #[must_use]
    pub fn whole(self) -> ShadowPart<W> {
        self.part(0)
    }

    /// A part of each word, from its `offset`th byte on.
    ///
    /// # Panics
    /// If it is beyond the word's end.
    #[must_use]
    #[track_caller]
    pub fn part<V: ShadowWord>(self, offset: u8) -> ShadowPart<V> {
        let size = size_of::<V>() as u8;
        assert!(
            usize::from(offset) + size_of::<V>() <= size_of::<W>(),
            "a word of {} bytes has no {size} bytes at {offset}",
            size_of::<W>()
        );
        ShadowPart {
            part: WordPart {
                shadow: self.inner,
                offset,
                size,
            },
            value: PhantomData,
        }
    }
}

/// A part of each word of a shadow memory, which can be tested and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowPart<V> {
    part: WordPart,
    value: PhantomData<V>,
}

impl<V: ShadowWord> ShadowPart<V> {
    /// The test whether it is this: a constant, or what the thread has in a [`ThreadWord`].
    #[must_use]
    pub fn is(self, value: impl Into<ShadowValue<V>>) -> ShadowTest {
        ShadowTest {
            part: self.part,
            value: value.into().source,
            mask: None,
        }
    }

    /// The store that makes it this.
    #[must_use]
    pub fn becomes(self, value: impl Into<ShadowValue<V>>) -> ShadowStore {
        ShadowStore {
            part: self.part,
            value: value.into().source,
        }
    }
}

impl ShadowPart<u32> {
    /// The test whether those of its bits that are set in a mask are as they are there.
    #[must_use]
    pub fn is_under(self, mask: u32, value: impl Into<ShadowValue<u32>>) -> ShadowTest {
        ShadowTest {
            mask: Some(mask),
            ..self.is(value)
        }
    }
}

/// What shadow words are compared with, or become: a constant, or a [`ThreadWord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowValue<V> {
    source: WordValue,
    value: PhantomData<V>,
}

impl<V: ShadowWord> From<V> for ShadowValue<V> {
    fn from(value: V) -> ShadowValue<V> {
        ShadowValue {
            source: WordValue::Constant(value.to_word()),
            value: PhantomData,
        }
    }
}

impl<V: ShadowWord> From<ThreadWord<V>> for ShadowValue<V> {
    fn from(word: ThreadWord<V>) -> ShadowValue<V> {
        ShadowValue {
            source: WordValue::Thread(word.inner),
            value: PhantomData,
        }
    }
}

/// A word that each thread has for itself, where inserted code finds it: what shadow words are
/// compared with, and become. It is 0 when a thread begins. A tool can have eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadWord<V> {
    inner: instrument::ThreadWord,
    value: PhantomData<V>,
}

impl<V: ShadowWord> ThreadWord<V> {
    /// A new one.
    ///
    /// # Panics
    /// If there are too many.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> ThreadWord<V> {
        ThreadWord {
            inner: instrument::ThreadWord::new(),
            value: PhantomData,
        }
    }

    /// What the calling thread has there.
    #[must_use]
    #[inline]
    pub fn get(self) -> V {
        V::from_word(self.inner.get())
    }

    /// The calling thread has this there from now on.
    #[inline]
    pub fn set(self, value: V) {
        self.inner.set(value.to_word());
    }
}

impl<T: Tool> Point<'_, T> {
    /// Tests the shadow words of all that an operand touches, and calls a function if a test of one of
    /// them fails. If none does, it stores. Tests and stores are inlined; several tests must all hold.
    ///
    /// The function is also called where the operand is not aligned (to its size, or to a granule if it
    /// is larger than that), so that it may touch more words than are tested. It looks at all of them,
    /// and stores what is to be stored.
    ///
    /// `false`, and nothing is inserted, for operands without an
    /// [`effective_address`](crate::effective_address) and for those of more than 64 words, as the
    /// areas of `xsave` may be: have a function called there that looks itself. Of a repeated string
    /// instruction the first element counts, of a masked operand all elements.
    ///
    /// ```
    /// use unspool_tool::{AccessKind, Address, InstructionPointer, Shadow, Superblock, Tool, effective_address};
    ///
    /// /// Tells who is the first to read what was written: each eight bytes have a byte, which is 1
    /// /// from a write to the next read.
    /// struct FirstReaders {
    ///     fresh: Shadow<u8, 8>,
    /// }
    ///
    /// impl FirstReaders {
    ///     fn read(&self, readers: &mut Vec<Address>, at: Address, by: Address) {
    ///         if self.fresh.get(at.0) != 0 {
    ///             self.fresh.set(at.0, 1, 0);
    ///             readers.push(by);
    ///         }
    ///     }
    /// }
    ///
    /// impl Tool for FirstReaders {
    ///     type Thread = Vec<Address>;
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         let fresh = self.fresh.whole();
    ///         for instruction in superblock.instructions() {
    ///             for operand in instruction.memory_operands() {
    ///                 let (Some(at), before) = (effective_address(operand), instruction.before()) else {
    ///                     continue;
    ///                 };
    ///                 if operand.kind == AccessKind::Write {
    ///                     before.store_shadow(operand, &[fresh.becomes(1)]);
    ///                 } else {
    ///                     let arguments = (at, InstructionPointer);
    ///                     let tests = [fresh.is(0)];
    ///                     before.check_shadow((operand, &tests, &[]), FirstReaders::read, arguments);
    ///                 }
    ///             }
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// A value of another type than the words does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use unspool_tool::Shadow;
    /// let shadow = Shadow::<u8, 8>::new().unwrap();
    /// let test = shadow.whole().is(1_u32);
    /// ```
    ///
    /// # Panics
    /// If there is nothing to test or to store, or if that is of more than one shadow memory.
    pub fn check_shadow<F, A>(
        &self,
        check: (&MemoryOperand, &[ShadowTest], &[ShadowStore]),
        function: F,
        arguments: A,
    ) -> bool
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        let call = Action::Call(self.analysis(function, &arguments));
        self.shadow(check, Some(call))
    }

    /// The same, with a second test by a function where those of shadow words fail, as in
    /// [`Point::call_if`]: for what is rare, but not so rare that it may call a function whose code
    /// cannot be followed. The test stores what is to be stored if it returns `false`.
    ///
    /// # Panics
    /// As [`Point::check_shadow`].
    pub fn check_shadow_if<P, B, F, A>(
        &self,
        check: (&MemoryOperand, &[ShadowTest], &[ShadowStore]),
        test: P,
        test_arguments: B,
        function: F,
        arguments: A,
    ) -> bool
    where
        B: Arguments,
        P: Analysis<T, T::Thread, B::Values, bool>,
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        let call = Action::CallIf {
            test: self.test(test, &test_arguments),
            then: self.analysis(function, &arguments),
        };
        self.shadow(check, Some(call))
    }

    /// Stores into the shadow words of all that an operand touches, whatever they are and wherever it
    /// lies. `false` as for [`Point::check_shadow`].
    ///
    /// # Panics
    /// As [`Point::check_shadow`].
    pub fn store_shadow(&self, operand: &MemoryOperand, stores: &[ShadowStore]) -> bool {
        self.shadow((operand, &[], stores), None)
    }

    fn shadow(
        &self,
        (operand, tests, stores): (&MemoryOperand, &[ShadowTest], &[ShadowStore]),
        otherwise: Option<Action>,
    ) -> bool {
        let otherwise = otherwise.map(Box::new);
        let check = ShadowCheck::new(operand, tests, stores);
        let action = check.map(|check| Action::Shadow { check, otherwise });
        action.map(|action| self.insert(action)).is_some()
    }
}
