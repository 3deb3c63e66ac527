//! Calls where routines are entered and left: their moments, and typed sources of arguments.

use std::marker::PhantomData;
use std::ptr::NonNull;

use unspool_engine::instrument;
use unspool_engine::instrument::functions::{
    HookCall, HookFunction, HookValue, Hooks, MOST_ARGUMENTS,
};

use crate::argument::{Analysis, Constant};
use crate::function::Value;
use crate::tool::Tool;
use crate::{Address, Word};

/// When something is called.
pub trait Moment {
    /// The calls of that moment.
    #[doc(hidden)]
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall>;
}

/// A routine is entered.
#[derive(Debug)]
pub enum AtEntry {}
/// A routine returns.
#[derive(Debug)]
pub enum AtExit {}
/// A routine is left otherwise.
#[derive(Debug)]
pub enum AtUnwind {}

impl Moment for AtEntry {
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall> {
        &mut hooks.entry
    }
}

impl Moment for AtExit {
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall> {
        &mut hooks.exit
    }
}

impl Moment for AtUnwind {
    fn list(hooks: &mut Hooks) -> &mut Vec<HookCall> {
        &mut hooks.unwind
    }
}

/// Where a value comes from at a moment.
pub trait Source<M> {
    /// The type of the value.
    type Value: Value;
    /// What to ask the engine for.
    #[doc(hidden)]
    fn source(&self) -> HookValue;
}

impl<V: Word + Value, M> Source<M> for Constant<V> {
    type Value = V;

    fn source(&self) -> HookValue {
        HookValue::Constant(self.0.to_word())
    }
}

/// An argument of the routine, by its number among those of its kind: integers and pointers, or
/// floating-point numbers. It has the type that the tool says.
#[derive(Debug, Clone, Copy)]
pub struct EntryArgument<V>(u8, PhantomData<V>);

impl<V: Value> EntryArgument<V> {
    /// The argument of a number, from 0 on.
    ///
    /// # Panics
    /// If it is a floating-point number beyond the eighth.
    #[must_use]
    pub fn new(number: u8) -> EntryArgument<V> {
        assert!(
            !V::FLOATING || number < 8,
            "eight floating-point arguments are in registers"
        );
        EntryArgument(number, PhantomData)
    }
}

impl<V: Value> Source<AtEntry> for EntryArgument<V> {
    type Value = V;

    fn source(&self) -> HookValue {
        match V::FLOATING {
            true => HookValue::Float(self.0),
            false => HookValue::Integer(self.0),
        }
    }
}

/// What the routine returns. It has the type that the tool says.
#[derive(Debug, Clone, Copy)]
pub struct ExitValue<V>(PhantomData<V>);

impl<V: Value> ExitValue<V> {
    /// The value.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "its type is to be said")]
    pub fn new() -> ExitValue<V> {
        ExitValue(PhantomData)
    }
}

impl<V: Value> Source<AtExit> for ExitValue<V> {
    type Value = V;

    fn source(&self) -> HookValue {
        match V::FLOATING {
            true => HookValue::FloatResult,
            false => HookValue::Result,
        }
    }
}

/// Where the routine's return address is on the stack: the same at its entry and at its end.
#[derive(Debug, Clone, Copy)]
pub struct EntryStackPointer;

impl<M> Source<M> for EntryStackPointer {
    type Value = Address;

    fn source(&self) -> HookValue {
        HookValue::StackPointer
    }
}

/// Where the routine returns to.
#[derive(Debug, Clone, Copy)]
pub struct CallerAddress;

impl<M> Source<M> for CallerAddress {
    type Value = Address;

    fn source(&self) -> HookValue {
        HookValue::ReturnAddress
    }
}

/// The arguments of a call at a moment: up to six sources in a tuple.
pub trait Sources<M> {
    /// The types of their values, in a tuple.
    type Values;
    /// What to ask the engine for.
    #[doc(hidden)]
    fn sources(&self) -> [Option<HookValue>; MOST_ARGUMENTS];
    /// Whether any of them is a floating-point number.
    #[doc(hidden)]
    fn have_floats(&self) -> bool;
    /// The values.
    #[doc(hidden)]
    fn values(words: &[u64; MOST_ARGUMENTS]) -> Self::Values;
}

macro_rules! tuples {
    ($($source:ident $number:tt),*) => {
        impl<M, $($source: Source<M>),*> Sources<M> for ($($source,)*) {
            type Values = ($($source::Value,)*);

            #[allow(unused_mut, clippy::allow_attributes, reason = "one has none")]
            fn sources(&self) -> [Option<HookValue>; MOST_ARGUMENTS] {
                let mut sources = [None; MOST_ARGUMENTS];
                $(sources[$number] = Some(self.$number.source());)*
                sources
            }

            fn have_floats(&self) -> bool {
                false $(|| $source::Value::FLOATING)*
            }

            #[allow(unused_variables, clippy::unused_unit, clippy::allow_attributes, reason = "one has none")]
            fn values(words: &[u64; MOST_ARGUMENTS]) -> Self::Values {
                ($($source::Value::from_bits(words[$number]),)*)
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

/// The function that the engine calls for an analysis function with certain arguments.
pub(crate) fn entry<T, F, A, M>(_function: F) -> HookFunction
where
    T: Tool,
    A: Sources<M>,
    F: Analysis<T, T::Thread, A::Values>,
{
    const {
        assert!(
            size_of::<F>() == 0,
            "an analysis function must be a function, or a closure that captures nothing"
        );
    }
    enter::<T, F, A, M>
}

extern "C" fn enter<T, F, A, M>(words: *const u64)
where
    T: Tool,
    A: Sources<M>,
    F: Analysis<T, T::Thread, A::Values>,
{
    // SAFETY: the type has no size, is `Copy`, and `entry` was given a value of it.
    let function = unsafe { NonNull::<F>::dangling().read() };
    // SAFETY: the engine passes the address of so many words.
    let words = unsafe { &*words.cast::<[u64; MOST_ARGUMENTS]>() };
    // SAFETY: only a hook of a tool of this type calls this, so the tool is one, and so is what
    // it keeps for this thread, which nobody else uses.
    let (tool, state) = unsafe {
        let tool = &*instrument::tool_address().cast::<T>();
        (tool, &mut *instrument::thread_state().cast::<T::Thread>())
    };
    function.call(tool, state, A::values(words));
}
