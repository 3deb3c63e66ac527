//! What functions are called with and return, as C's calling convention passes it.
//!
//! At the moments of a routine all of it is known. At an instruction the tool must know that the
//! function begins or ends there.

use std::marker::PhantomData;

use unspool_instrument as instrument;
use unspool_instrument::functions::HookValue;

use crate::argument::{Address, Argument, Word, word_argument};
use crate::function::Value;
use crate::moment::{AtEntry, AtExit, RoutineMoment, word_in_memory};
use crate::source::Register;

/// How many integers are passed in registers.
const INTEGER_REGISTERS: usize = 6;
/// How many floating-point numbers are passed in registers.
const FLOAT_REGISTERS: usize = 8;

/// An argument of a routine, by its number among those of its kind: integers and pointers, or
/// floating-point numbers. It has the type that the tool says.
///
/// At an entry or an end, where it is what it was at the entry, or before a function's first
/// instruction. There an integer is 0 if it is on a stack that is not there.
#[derive(Debug, Clone, Copy)]
pub struct FunctionArgument<V, const N: usize>(PhantomData<V>);

impl<V: Value, const N: usize> FunctionArgument<V, N> {
    /// The argument.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a name for a place")]
    pub const fn new() -> FunctionArgument<V, N> {
        const {
            assert!(
                !V::FLOATING || N < FLOAT_REGISTERS,
                "eight floating-point arguments are in registers"
            );
            assert!(N <= u8::MAX as usize, "no function has so many arguments");
        }
        FunctionArgument(PhantomData)
    }
}

impl<M: RoutineMoment, V: Value, const N: usize> Argument<M> for FunctionArgument<V, N> {
    type Value = V;

    fn source(&self, (): ()) -> HookValue {
        match V::FLOATING {
            true => HookValue::Float(N as u8),
            false => HookValue::Integer(N as u8),
        }
    }

    fn value(word: u64, _: usize) -> V {
        V::from_bits(word)
    }
}

impl<V: Value, const N: usize> Argument for FunctionArgument<V, N> {
    type Value = V;
    const IS_WORD: bool = !V::FLOATING && N < INTEGER_REGISTERS;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        let registers = [
            Register::Rdi,
            Register::Rsi,
            Register::Rdx,
            Register::Rcx,
            Register::R8,
            Register::R9,
        ];
        match V::FLOATING {
            true => instrument::Argument::Vector(N as u8),
            false => registers.get(N).unwrap_or(&Register::Rsp).word(),
        }
    }

    fn value(word: u64, number: usize) -> V {
        V::from_bits(match V::FLOATING {
            true => word_in_memory(number),
            false if N < INTEGER_REGISTERS => word,
            false => {
                // Behind the return address.
                let place = word.wrapping_add(8 * (N - INTEGER_REGISTERS + 1) as u64);
                instrument::program_word(place).unwrap_or(0)
            }
        })
    }
}

/// An integer or a pointer of the program that a function may change, for as long as the function
/// runs.
#[derive(Debug)]
pub struct ValueMut<V> {
    word: *mut u64,
    value: PhantomData<V>,
}

impl<V: Value> ValueMut<V> {
    /// What it is.
    #[must_use]
    pub fn get(&self) -> V {
        // SAFETY: the word is this thread's, which the value cannot leave, and lives as long as the
        // function runs; nobody else uses it meanwhile.
        V::from_bits(unsafe { self.word.read() })
    }

    /// Makes it another one.
    pub fn set(&mut self, value: V) {
        // SAFETY: as above.
        unsafe { self.word.write(value.to_bits()) }
    }

    fn at(number: usize) -> ValueMut<V> {
        ValueMut {
            word: instrument::argument_word(number),
            value: PhantomData,
        }
    }
}

/// An argument of a routine that a function may change at the routine's entry, by its number among
/// the first six integers and pointers. What [`FunctionArgument`] says at the routine's end is what the
/// caller has passed.
///
/// ```
/// # use unspool_tool::{FunctionArgumentByReference, Image, ReturnValueByReference, Superblock};
/// # use unspool_tool::{Tool, ValueMut};
/// /// Has the program read a byte at a time.
/// struct ByteByByte;
///
/// impl ByteByByte {
///     fn reads(&self, _: &mut (), mut size: ValueMut<usize>) {
///         size.set(size.get().min(1));
///     }
/// }
///
/// impl Tool for ByteByByte {
///     type Thread = ();
///     fn instrument(&self, _: &Superblock<Self>) {}
///     fn image_load(&self, image: &Image<Self>) {
///         for read in image.routines_named("read") {
///             let size = FunctionArgumentByReference::<usize, 2>::new();
///             read.entry().call(ByteByByte::reads, (size,));
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FunctionArgumentByReference<V, const N: usize>(PhantomData<V>);

impl<V: Value, const N: usize> FunctionArgumentByReference<V, N> {
    /// The argument.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a name for a place")]
    pub const fn new() -> FunctionArgumentByReference<V, N> {
        const {
            assert!(
                !V::FLOATING && N < INTEGER_REGISTERS,
                "six integers or pointers are in registers"
            );
        }
        FunctionArgumentByReference(PhantomData)
    }
}

impl<V: Value, const N: usize> Argument<AtEntry> for FunctionArgumentByReference<V, N> {
    type Value = ValueMut<V>;

    fn source(&self, (): ()) -> HookValue {
        HookValue::ChangeableInteger(N as u8)
    }

    fn value(_: u64, number: usize) -> ValueMut<V> {
        ValueMut::at(number)
    }
}

/// What a routine returns, an integer or a pointer, which a function may change at its exit.
#[derive(Debug, Clone, Copy)]
pub struct ReturnValueByReference<V>(PhantomData<V>);

impl<V: Value> ReturnValueByReference<V> {
    /// The value.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a name for a place")]
    pub const fn new() -> ReturnValueByReference<V> {
        const { assert!(!V::FLOATING, "integers and pointers can be changed") }
        ReturnValueByReference(PhantomData)
    }
}

impl<V: Value> Argument<AtExit> for ReturnValueByReference<V> {
    type Value = ValueMut<V>;

    fn source(&self, (): ()) -> HookValue {
        HookValue::ChangeableResult
    }

    fn value(_: u64, number: usize) -> ValueMut<V> {
        ValueMut::at(number)
    }
}

/// What a routine returns. It has the type that the tool says.
///
/// At an exit, or before a function's return.
#[derive(Debug, Clone, Copy)]
pub struct ReturnValue<V>(PhantomData<V>);

impl<V: Value> ReturnValue<V> {
    /// The value.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a name for a place")]
    pub const fn new() -> ReturnValue<V> {
        ReturnValue(PhantomData)
    }
}

impl<V: Value> Argument<AtExit> for ReturnValue<V> {
    type Value = V;

    fn source(&self, (): ()) -> HookValue {
        match V::FLOATING {
            true => HookValue::FloatResult,
            false => HookValue::Result,
        }
    }

    fn value(word: u64, _: usize) -> V {
        V::from_bits(word)
    }
}

impl<V: Value> Argument for ReturnValue<V> {
    type Value = V;
    const IS_WORD: bool = !V::FLOATING;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        match V::FLOATING {
            true => instrument::Argument::Vector(0),
            false => Register::Rax.word(),
        }
    }

    fn value(word: u64, number: usize) -> V {
        V::from_bits(match V::FLOATING {
            true => word_in_memory(number),
            false => word,
        })
    }
}

/// Where a routine returns to.
///
/// At an instruction it is what is on top of the stack, as it is before a function's first
/// instruction and before its return: `None` if the stack is not there.
#[derive(Debug, Clone, Copy)]
pub struct ReturnAddress;

impl<M: RoutineMoment> Argument<M> for ReturnAddress {
    type Value = Address;

    fn source(&self, (): ()) -> HookValue {
        HookValue::ReturnAddress
    }

    fn value(word: u64, _: usize) -> Address {
        Address(word)
    }
}

impl Argument for ReturnAddress {
    type Value = Option<Address>;
    const IS_WORD: bool = false;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        Register::Rsp.word()
    }

    fn value(word: u64, _: usize) -> Option<Address> {
        instrument::program_word(word).map(Address)
    }
}

/// The stack pointer. At the moments of a routine: where its return address is, the same at its
/// entry and at its end.
#[derive(Debug, Clone, Copy)]
pub struct StackPointer;

impl<M: RoutineMoment> Argument<M> for StackPointer {
    type Value = Address;

    fn source(&self, (): ()) -> HookValue {
        HookValue::StackPointer
    }

    fn value(word: u64, _: usize) -> Address {
        Address(word)
    }
}

word_argument!(StackPointer => Address, |_, _| Register::Rsp.word());
