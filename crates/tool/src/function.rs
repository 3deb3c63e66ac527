//! Functions of a tool in the place of the program's, with the types of these.

use std::marker::PhantomData;

use unspool_instrument::functions::{self, CallRegisters, Hooks};

use crate::call::{self, assert_captures_nothing, tool_and_state};
use crate::tool::Tool;
use crate::{Address, Word};

/// A value that a function takes or returns in a register, by the C calling convention of
/// Linux: an integer, a pointer, or a floating-point number.
pub trait Value: Copy + 'static {
    /// Whether it is in a floating-point register.
    const FLOATING: bool;
    /// What the register holds.
    fn to_bits(self) -> u64;
    /// The inverse of [`Value::to_bits`].
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            const FLOATING: bool = false;

            fn to_bits(self) -> u64 {
                self.to_word()
            }

            fn from_bits(bits: u64) -> $number {
                <$number>::from_word(bits)
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, Address);

impl Value for bool {
    const FLOATING: bool = false;

    fn to_bits(self) -> u64 {
        u64::from(self)
    }

    /// Only the lowest byte counts.
    fn from_bits(bits: u64) -> bool {
        bits as u8 != 0
    }
}

impl<V: 'static> Value for *mut V {
    const FLOATING: bool = false;

    fn to_bits(self) -> u64 {
        self as u64
    }

    fn from_bits(bits: u64) -> *mut V {
        bits as *mut V
    }
}

impl<V: 'static> Value for *const V {
    const FLOATING: bool = false;

    fn to_bits(self) -> u64 {
        self as u64
    }

    fn from_bits(bits: u64) -> *const V {
        bits as *const V
    }
}

impl Value for f64 {
    const FLOATING: bool = true;

    fn to_bits(self) -> u64 {
        f64::to_bits(self)
    }

    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl Value for f32 {
    const FLOATING: bool = true;

    fn to_bits(self) -> u64 {
        u64::from(f32::to_bits(self))
    }

    fn from_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
}

/// What a function may return beside values: nothing.
impl Value for () {
    const FLOATING: bool = false;

    fn to_bits(self) -> u64 {
        0
    }

    fn from_bits(_: u64) {}
}

/// The type of a function of the program: `extern "C" fn(usize) -> Address` for instance, with up
/// to six arguments.
pub trait Signature: 'static {
    /// Its arguments, in a tuple.
    type Arguments;
    /// What it returns.
    type Result: Value;
    /// Whether it has to do with floating-point registers.
    const FLOATING: bool;
    /// Reads the arguments.
    #[doc(hidden)]
    fn load(registers: &CallRegisters) -> Self::Arguments;
    /// Puts arguments where the function takes them.
    #[doc(hidden)]
    fn store(arguments: Self::Arguments, registers: &mut CallRegisters);
}

/// A function of a tool that can replace one of the program's: it gets the tool, what the tool
/// keeps for the thread, and the arguments.
pub trait Replacement<T: Tool, S: Signature>: Copy + 'static {
    /// Calls it.
    #[doc(hidden)]
    fn call(self, tool: &T, state: &mut T::Thread, arguments: S::Arguments) -> S::Result;
}

/// A function of a tool that can be put around one of the program's: it gets the tool, the
/// original, and the arguments.
pub trait Wrapper<T: Tool, S: Signature>: Copy + 'static {
    /// Calls it.
    #[doc(hidden)]
    fn call(
        self,
        tool: &T,
        original: &mut Original<'_, T, S>,
        arguments: S::Arguments,
    ) -> S::Result;
}

/// The function of the program that a wrapper is around.
pub struct Original<'a, T, S> {
    registers: &'a mut CallRegisters,
    types: PhantomData<fn(&T, S)>,
    /// It is the thread's whose call this is.
    thread: PhantomData<*mut ()>,
}

impl<T: Tool, S: Signature> Original<'_, T, S> {
    /// What the tool keeps for the thread. Not across a call of the original, in which other
    /// functions of the tool may use it.
    pub fn state(&mut self) -> &mut T::Thread {
        // SAFETY: a wrapper of a tool of this type runs, in the thread whose state this is; the
        // reference cannot live when the original runs.
        unsafe { call::thread_state::<T>() }
    }

    /// Where the function was called from: what it returns to.
    #[must_use]
    pub fn return_address(&self) -> Address {
        Address(self.registers.return_address)
    }

    /// Where its return address is on the stack.
    #[must_use]
    pub fn stack_pointer(&self) -> Address {
        Address(self.registers.stack_pointer)
    }

    fn run(&mut self, arguments: S::Arguments) -> S::Result {
        S::store(arguments, self.registers);
        functions::call_original(self.registers);
        match S::Result::FLOATING {
            true => S::Result::from_bits(self.registers.float_result),
            false => S::Result::from_bits(self.registers.result),
        }
    }
}

macro_rules! signatures {
    ($($value:ident $name:ident $number:tt),*) => {
        impl<R: Value, $($value: Value),*> Signature for extern "C" fn($($value),*) -> R {
            type Arguments = ($($value,)*);
            type Result = R;
            const FLOATING: bool = R::FLOATING $(|| $value::FLOATING)*;

            #[allow(unused_variables, unused_mut, unused_assignments, clippy::unused_unit, clippy::allow_attributes, reason = "one has none")]
            fn load(registers: &CallRegisters) -> Self::Arguments {
                let (mut integer, mut float) = (0, 0);
                $(let $name = match $value::FLOATING {
                    true => {
                        float += 1;
                        $value::from_bits(registers.floats[float - 1])
                    }
                    false => {
                        integer += 1;
                        $value::from_bits(registers.integers[integer - 1])
                    }
                };)*
                ($($name,)*)
            }

            #[allow(unused_variables, unused_mut, unused_assignments, clippy::allow_attributes, reason = "one has none")]
            fn store(($($name,)*): Self::Arguments, registers: &mut CallRegisters) {
                let (mut integer, mut float) = (0, 0);
                $(match $value::FLOATING {
                    true => {
                        registers.floats[float] = $name.to_bits();
                        float += 1;
                    }
                    false => {
                        registers.integers[integer] = $name.to_bits();
                        integer += 1;
                    }
                })*
            }
        }

        impl<T, F, R: Value, $($value: Value),*> Replacement<T, extern "C" fn($($value),*) -> R> for F
        where
            T: Tool,
            F: Fn(&T, &mut T::Thread, $($value),*) -> R + Copy + 'static,
        {
            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            fn call(self, tool: &T, state: &mut T::Thread, arguments: ($($value,)*)) -> R {
                self(tool, state, $(arguments.$number),*)
            }
        }

        impl<T, F, R: Value, $($value: Value),*> Wrapper<T, extern "C" fn($($value),*) -> R> for F
        where
            T: Tool,
            F: Fn(&T, &mut Original<'_, T, extern "C" fn($($value),*) -> R>, $($value),*) -> R
                + Copy
                + 'static,
        {
            #[allow(unused_variables, clippy::allow_attributes, reason = "one has none")]
            fn call(
                self,
                tool: &T,
                original: &mut Original<'_, T, extern "C" fn($($value),*) -> R>,
                arguments: ($($value,)*),
            ) -> R {
                self(tool, original, $(arguments.$number),*)
            }
        }

        impl<T: Tool, R: Value, $($value: Value),*> Original<'_, T, extern "C" fn($($value),*) -> R> {
            /// Calls the original function.
            #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "as many as it has")]
            pub fn call(&mut self, $($name: $value),*) -> R {
                self.run(($($name,)*))
            }
        }
    };
}

signatures!();
signatures!(A a 0);
signatures!(A a 0, B b 1);
signatures!(A a 0, B b 1, C c 2);
signatures!(A a 0, B b 1, C c 2, D d 3);
signatures!(A a 0, B b 1, C c 2, D d 3, E e 4);
signatures!(A a 0, B b 1, C c 2, D d 3, E e 4, G g 5);

fn put<S: Signature>(result: S::Result, registers: &mut CallRegisters) {
    match S::Result::FLOATING {
        true => registers.float_result = result.to_bits(),
        false => registers.result = result.to_bits(),
    }
}

/// `F` is the tool's function that is run, by whose name it can be asked how it is called.
fn hooks<S: Signature, F>(wrapper: functions::WrapperFunction) -> Hooks {
    functions::name_wrapper(wrapper, std::any::type_name::<F>());
    Hooks {
        wrapper: Some(wrapper),
        has_floats: S::FLOATING,
        ..Hooks::default()
    }
}

/// What has the engine call a function in the place of another one.
pub(crate) fn replace<T: Tool, S: Signature, F: Replacement<T, S>>(_function: F) -> Hooks {
    const { assert_captures_nothing::<F>() };
    extern "C-unwind" fn run<T: Tool, S: Signature, F: Replacement<T, S>>(
        registers: &mut CallRegisters,
    ) {
        // SAFETY: as in `wrap`; the state is this thread's, and nobody else uses it.
        let (function, (tool, state)) = unsafe { (call::function::<F>(), tool_and_state::<T>()) };
        let result = function.call(tool, state, S::load(registers));
        put::<S>(result, registers);
    }
    hooks::<S, F>(run::<T, S, F>)
}

/// What has the engine call a function around another one.
pub(crate) fn wrap<T: Tool, S: Signature, F: Wrapper<T, S>>(_function: F) -> Hooks {
    const { assert_captures_nothing::<F>() };
    extern "C-unwind" fn run<T: Tool, S: Signature, F: Wrapper<T, S>>(
        registers: &mut CallRegisters,
    ) {
        // SAFETY: the type has no size, and there was a value of it; only what a tool of this
        // type asked for gets here.
        let (function, tool) = unsafe { (call::function::<F>(), call::tool::<T>()) };
        let arguments = S::load(registers);
        let mut original = Original {
            registers: &mut *registers,
            types: PhantomData,
            thread: PhantomData,
        };
        let result = function.call(tool, &mut original, arguments);
        put::<S>(result, registers);
    }
    hooks::<S, F>(run::<T, S, F>)
}
