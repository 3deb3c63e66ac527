//! Functions of a probe in the place of the program's, with the types of these.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::errno::{errno, set_errno};
use crate::inside::{Inside, Outside};
use crate::passage::{EntryPoint, Hook, ResultPlace, seventh_from_r11};

/// An address in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Address(pub u64);

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

/// A value that a function takes or returns in a register, by the C calling convention of
/// Linux: an integer, a pointer, or a floating-point number; or, as a result, nothing.
pub trait Value: Copy + 'static {
    /// Where it is as a result.
    const PLACE: ResultPlace;
}

macro_rules! values {
    ($place:ident: $($type:ty),*) => {
        $(impl Value for $type {
            const PLACE: ResultPlace = ResultPlace::$place;
        })*
    };
}

values!(Integer: u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, bool, Address);
values!(Floating: f32, f64);
values!(None: ());

impl<V: 'static> Value for *mut V {
    const PLACE: ResultPlace = ResultPlace::Integer;
}

impl<V: 'static> Value for *const V {
    const PLACE: ResultPlace = ResultPlace::Integer;
}

/// The type of a function of the program: `extern "C" fn(usize) -> Address` for instance, with up
/// to six arguments.
pub trait Signature: 'static {}

/// A function of a probe that can replace one of the program's: it gets the probe and the
/// arguments.
pub trait Replacement<P: 'static, S: Signature>: Copy + 'static {
    /// What to call in the function's place.
    #[doc(hidden)]
    fn replacement() -> EntryPoint;
}

/// A function of a probe that can be put around one of the program's: it gets the probe, the
/// original, and the arguments.
pub trait Wrapper<P: 'static, S: Signature>: Copy + 'static {
    /// What to call in the function's place.
    #[doc(hidden)]
    fn wrapper() -> EntryPoint;
}

/// The function of the program that a wrapper is around.
#[derive(Debug)]
pub struct Original<S> {
    code: u64,
    /// What `errno` is to be when the wrapper returns.
    errno: i32,
    signature: PhantomData<fn(S)>,
}

impl<S> Original<S> {
    fn new(hook: &Hook) -> Original<S> {
        Original {
            code: hook.original,
            errno: errno(),
            signature: PhantomData,
        }
    }
}

/// A function or closure without captures, of which there need be no value.
///
/// # Safety
/// There must have been a value of it.
unsafe fn function_of<F: Copy>() -> F {
    const {
        assert!(
            size_of::<F>() == 0,
            "a probe's function must be a function, or a closure that captures nothing"
        );
    }
    // SAFETY: the type has no size, and the caller says that there was a value.
    unsafe { NonNull::<F>::dangling().read() }
}

/// # Safety
/// The hook must be of a probe of this type.
unsafe fn probe_of<P>(hook: &'static Hook) -> &'static P {
    // SAFETY: the caller's; the probe lives as long as the process.
    unsafe { &*hook.probe.cast::<P>() }
}

/// What to call for a function whose arguments come in these places: `enter`, or what finds the
/// hook where six integers leave no register for it.
fn entry_of<R: Value>(
    arguments: &[ResultPlace],
    enter: *const (),
    enter_with_six: *const (),
) -> EntryPoint {
    let is_integer = |place: &&ResultPlace| **place == ResultPlace::Integer;
    let integers = arguments.iter().filter(is_integer).count();
    EntryPoint {
        function: if integers == 6 { enter_with_six } else { enter },
        integers,
        result: R::PLACE,
    }
}

macro_rules! signatures {
    ($($value:ident $name:ident),*) => {
        impl<R: Value, $($value: Value),*> Signature for extern "C" fn($($value),*) -> R {}

        impl<R: Value, $($value: Value),*> Original<extern "C" fn($($value),*) -> R> {
            /// Calls the original function.
            #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "as many as it has")]
            pub fn call(&mut self, $($name: $value),*) -> R {
                set_errno(self.errno);
                let outside = Outside::leave();
                let result = self.pass($($name),*);
                drop(outside);
                self.errno = errno();
                result
            }

            #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "as many as it has")]
            fn pass(&self, $($name: $value),*) -> R {
                type Function<R, $($value),*> = unsafe extern "C-unwind" fn($($value),*) -> R;
                // SAFETY: the code is that of a function of the program, which whoever named it
                // says to have this type, or else the program could not call it so either.
                unsafe {
                    let function: Function<R, $($value),*> = std::mem::transmute(self.code);
                    function($($name),*)
                }
            }
        }

        impl<P, F, R: Value, $($value: Value),*> Wrapper<P, extern "C" fn($($value),*) -> R> for F
        where
            P: 'static,
            F: Fn(&P, &mut Original<extern "C" fn($($value),*) -> R>, $($value),*) -> R + Copy + 'static,
        {
            fn wrapper() -> EntryPoint {
                #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "as many as it has")]
                unsafe extern "C-unwind" fn enter<P: 'static, F, R: Value, $($value: Value),*>($($name: $value,)* hook: &'static Hook) -> R
                where
                    F: Fn(&P, &mut Original<extern "C" fn($($value),*) -> R>, $($value),*) -> R + Copy,
                {
                    let mut original = Original::<extern "C" fn($($value),*) -> R>::new(hook);
                    let Some(_inside) = Inside::enter() else {
                        return original.pass($($name),*);
                    };
                    // SAFETY: the hook was made for these types, with a value of the function.
                    let (function, probe) = unsafe { (function_of::<F>(), probe_of::<P>(hook)) };
                    let result = function(probe, &mut original, $($name),*);
                    set_errno(original.errno);
                    result
                }
                #[unsafe(naked)]
                unsafe extern "C-unwind" fn enter_with_six<P: 'static, F, R: Value, $($value: Value),*>()
                where
                    F: Fn(&P, &mut Original<extern "C" fn($($value),*) -> R>, $($value),*) -> R + Copy,
                {
                    seventh_from_r11!(enter::<P, F, R, $($value),*>)
                }
                entry_of::<R>(
                    &[$($value::PLACE),*],
                    enter::<P, F, R, $($value),*> as *const (),
                    enter_with_six::<P, F, R, $($value),*> as *const (),
                )
            }
        }

        impl<P, F, R: Value, $($value: Value),*> Replacement<P, extern "C" fn($($value),*) -> R> for F
        where
            P: 'static,
            F: Fn(&P, $($value),*) -> R + Copy + 'static,
        {
            fn replacement() -> EntryPoint {
                #[allow(clippy::too_many_arguments, clippy::allow_attributes, reason = "as many as it has")]
                unsafe extern "C-unwind" fn enter<P: 'static, F, R: Value, $($value: Value),*>($($name: $value,)* hook: &'static Hook) -> R
                where
                    F: Fn(&P, $($value),*) -> R + Copy,
                {
                    let Some(_inside) = Inside::enter() else {
                        let original = Original::<extern "C" fn($($value),*) -> R>::new(hook);
                        return original.pass($($name),*);
                    };
                    // SAFETY: the hook was made for these types, with a value of the function.
                    let (function, probe) = unsafe { (function_of::<F>(), probe_of::<P>(hook)) };
                    function(probe, $($name),*)
                }
                #[unsafe(naked)]
                unsafe extern "C-unwind" fn enter_with_six<P: 'static, F, R: Value, $($value: Value),*>()
                where
                    F: Fn(&P, $($value),*) -> R + Copy,
                {
                    seventh_from_r11!(enter::<P, F, R, $($value),*>)
                }
                entry_of::<R>(
                    &[$($value::PLACE),*],
                    enter::<P, F, R, $($value),*> as *const (),
                    enter_with_six::<P, F, R, $($value),*> as *const (),
                )
            }
        }
    };
}

signatures!();
signatures!(A a);
signatures!(A a, B b);
signatures!(A a, B b, C c);
signatures!(A a, B b, C c, D d);
signatures!(A a, B b, C c, D d, E e);
signatures!(A a, B b, C c, D d, E e, G g);
