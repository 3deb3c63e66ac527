//! From inserted code to a tool's function.

use std::ptr::NonNull;

use unspool_engine::instrument;

use crate::argument::{Analysis, Arguments, Test, Words};
use crate::tool::Tool;

/// The function that inserted code calls for an analysis function with certain arguments.
///
/// The function must be a function item or a closure that captures nothing: what is known
/// when the tool is compiled, so that no value of it need be kept.
pub(crate) fn entry<T, F, A>(_function: F) -> instrument::Function
where
    T: Tool,
    A: Arguments,
    F: Analysis<T, T::Thread, A::Values>,
{
    const { assert_captures_nothing::<F>() }
    enter::<T, F, A>
}

/// The same for a function that is called when a countdown has ended, which begins anew.
pub(crate) fn sampled_entry<T, F, A>(_function: F) -> instrument::Function
where
    T: Tool,
    A: Arguments,
    F: Analysis<T, T::Thread, A::Values>,
{
    const { assert_captures_nothing::<F>() }
    enter_sampled::<T, F, A>
}

extern "C" fn enter_sampled<T, F, A>(
    tool: *const (),
    state: *mut (),
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
) -> u64
where
    T: Tool,
    A: Arguments,
    F: Analysis<T, T::Thread, A::Values>,
{
    instrument::restart_countdown();
    enter::<T, F, A>(tool, state, first, second, third, fourth)
}

/// Likewise, for a function that decides whether another one is called.
pub(crate) fn test_entry<T, F, A>(_function: F) -> instrument::Function
where
    T: Tool,
    A: Arguments,
    F: Test<T, T::Thread, A::Values>,
{
    const { assert_captures_nothing::<F>() }
    enter_test::<T, F, A>
}

const fn assert_captures_nothing<F>() {
    assert!(
        size_of::<F>() == 0,
        "an analysis function must be a function, or a closure that captures nothing"
    );
}

extern "C" fn enter<T, F, A>(
    tool: *const (),
    state: *mut (),
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
) -> u64
where
    T: Tool,
    A: Arguments,
    F: Analysis<T, T::Thread, A::Values>,
{
    // SAFETY: the type has no size, is `Copy`, and `entry` was given a value of it.
    let function = unsafe { NonNull::<F>::dangling().read() };
    // SAFETY: only code that a tool of this type inserted calls this, with the tool and with what
    // that keeps for this thread, which nobody else uses.
    let (tool, state) = unsafe { (&*tool.cast::<T>(), &mut *state.cast::<T::Thread>()) };
    let words = Words([first, second, third, fourth]);
    function.call(tool, state, A::values(&words));
    0
}

extern "C" fn enter_test<T, F, A>(
    tool: *const (),
    state: *mut (),
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
) -> u64
where
    T: Tool,
    A: Arguments,
    F: Test<T, T::Thread, A::Values>,
{
    // SAFETY: as in `enter`.
    let function = unsafe { NonNull::<F>::dangling().read() };
    // SAFETY: as in `enter`.
    let (tool, state) = unsafe { (&*tool.cast::<T>(), &mut *state.cast::<T::Thread>()) };
    let words = Words([first, second, third, fourth]);
    u64::from(function.call(tool, state, A::values(&words)))
}
