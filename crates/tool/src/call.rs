//! From inserted code to a tool's function.

use std::ptr::NonNull;

use unspool_engine::instrument::{self, MOST_ARGUMENTS};

use crate::argument::{Analysis, Arguments};
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
    const {
        assert!(
            size_of::<F>() == 0,
            "an analysis function must be a function, or a closure that captures nothing"
        );
    }
    enter::<T, F, A>
}

extern "C" fn enter<T, F, A>(words: *const u64)
where
    T: Tool,
    A: Arguments,
    F: Analysis<T, T::Thread, A::Values>,
{
    // SAFETY: the type has no size, is `Copy`, and `entry` was given a value of it.
    let function = unsafe { NonNull::<F>::dangling().read() };
    // SAFETY: inserted code passes the address of so many words.
    let words = unsafe { &*words.cast::<[u64; MOST_ARGUMENTS]>() };
    // SAFETY: only code that a tool of this type inserted calls this, so the tool is one, and
    // so is what it keeps for this thread, which nobody else uses.
    let (tool, state) = unsafe {
        let tool = &*instrument::tool_address().cast::<T>();
        (tool, &mut *instrument::thread_state().cast::<T::Thread>())
    };
    function.call(tool, state, A::values(words));
}
