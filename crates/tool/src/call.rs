//! From what the engine calls to a tool's function.

use std::ptr::NonNull;

use unspool_instrument as instrument;
use unspool_instrument::functions::HookFunction;

use crate::argument::{Address, Analysis, Arguments};
use crate::function::Value;
use crate::moment::{AtInstruction, Moment, RoutineMoment, word_in_memory};
use crate::tool::Tool;

/// The function that inserted code calls for an analysis function with certain arguments.
///
/// The function must be a function item or a closure that captures nothing: what is known
/// when the tool is compiled, so that no value of it need be kept.
pub(crate) fn entry<T, F, A, R>(_function: F) -> instrument::AnalysisFunction
where
    T: Tool,
    A: Arguments,
    R: Value,
    F: Analysis<T, T::Thread, A::Values, R>,
{
    const { assert_captures_nothing::<F>() }
    named::<F>(enter::<T, F, A, R>)
}

/// The same for a function that is called when a countdown has ended, which begins anew.
pub(crate) fn sampled_entry<T, F, A>(_function: F) -> instrument::AnalysisFunction
where
    T: Tool,
    A: Arguments,
    F: Analysis<T, T::Thread, A::Values>,
{
    const { assert_captures_nothing::<F>() }
    named::<F>(enter_sampled::<T, F, A>)
}

/// The same for a function that says where an operand in memory is.
pub(crate) fn rewriting_entry<T, F, A>(_function: F) -> instrument::AnalysisFunction
where
    T: Tool,
    A: Arguments,
    F: Analysis<T, T::Thread, A::Values, Address>,
{
    const { assert_captures_nothing::<F>() }
    named::<F>(enter_rewriting::<T, F, A>)
}

/// The function that the engine calls at a moment that is not in inserted code.
pub(crate) fn words_entry<T, F, A, M>(_function: F) -> HookFunction
where
    T: Tool,
    M: Moment,
    A: Arguments<M>,
    F: Analysis<T, T::Thread, A::Values>,
{
    const { assert_captures_nothing::<F>() }
    enter_with_words::<T, F, A, M>
}

/// The same, as inserted code calls it.
pub(crate) fn inserted_routine_entry<T, F, A, M>(_function: F) -> instrument::AnalysisFunction
where
    T: Tool,
    M: RoutineMoment,
    A: Arguments<M>,
    F: Analysis<T, T::Thread, A::Values>,
{
    const { assert_captures_nothing::<F>() }
    named::<F>(enter_routine_inserted::<T, F, A, M>)
}

/// The same function, of which it can be asked by a name how it is called.
fn named<F>(function: instrument::AnalysisFunction) -> instrument::AnalysisFunction {
    instrument::name_function(function, std::any::type_name::<F>());
    function
}

pub(crate) const fn assert_captures_nothing<F>() {
    assert!(
        size_of::<F>() == 0,
        "an analysis function must be a function, or a closure that captures nothing"
    );
}

extern "C" fn enter<T, F, A, R>(
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
    R: Value,
    F: Analysis<T, T::Thread, A::Values, R>,
{
    let words = [first, second, third, fourth];
    // SAFETY: only code that a tool of this type inserted calls this, for which `entry` was given
    // a value of the function.
    unsafe { call_inserted::<T, F, A, AtInstruction, R>(tool, state, &words) }.to_bits()
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
    enter::<T, F, A, ()>(tool, state, first, second, third, fourth)
}

extern "C" fn enter_rewriting<T, F, A>(
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
    F: Analysis<T, T::Thread, A::Values, Address>,
{
    let address = enter::<T, F, A, Address>(tool, state, first, second, third, fourth);
    instrument::set_operand_address(address);
    0
}

extern "C" fn enter_with_words<T, F, A, M>(words: *const u64)
where
    T: Tool,
    M: Moment,
    A: Arguments<M>,
    F: Analysis<T, T::Thread, A::Values>,
{
    // SAFETY: `words_entry` was given a value of it.
    let function = unsafe { function::<F>() };
    // SAFETY: the engine passes the address of as many words as there are at that moment.
    let words = unsafe { &*words.cast::<M::Words>() };
    // SAFETY: only what a tool of this type asked for calls this.
    let (tool, state) = unsafe { tool_and_state::<T>() };
    function.call(tool, state, A::values(words));
}

extern "C" fn enter_routine_inserted<T, F, A, M>(
    tool: *const (),
    state: *mut (),
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
) -> u64
where
    T: Tool,
    M: RoutineMoment,
    A: Arguments<M>,
    F: Analysis<T, T::Thread, A::Values>,
{
    let (fifth, sixth) = (word_in_memory(4), word_in_memory(5));
    let words = [first, second, third, fourth, fifth, sixth];
    // SAFETY: as in `enter`, and by `inserted_routine_entry`.
    unsafe { call_inserted::<T, F, A, M, ()>(tool, state, &words) };
    0
}

/// Calls an analysis function for inserted code.
///
/// # Safety
/// There must have been a value of the function; the tool must be of this type, and the state what
/// it keeps for this thread, which nobody else uses.
#[expect(
    clippy::inline_always,
    reason = "functions that are called often must be short"
)]
#[inline(always)]
unsafe fn call_inserted<T, F, A, M, R>(tool: *const (), state: *mut (), words: &M::Words) -> R
where
    T: Tool,
    M: Moment,
    A: Arguments<M>,
    F: Analysis<T, T::Thread, A::Values, R>,
    R: Value,
{
    // SAFETY: the caller's.
    let (function, tool, state) = unsafe {
        (
            function::<F>(),
            &*tool.cast::<T>(),
            &mut *state.cast::<T::Thread>(),
        )
    };
    function.call(tool, state, A::values(words))
}

/// A function of no size.
///
/// # Safety
/// There must have been a value of it, and it must be `Copy`.
pub(crate) unsafe fn function<F>() -> F {
    const { assert_captures_nothing::<F>() }
    // SAFETY: it has no size; the rest is the caller's.
    unsafe { NonNull::<F>::dangling().read() }
}

/// The tool.
///
/// # Safety
/// It must be of this type.
pub(crate) unsafe fn tool<'a, T: Tool>() -> &'a T {
    // SAFETY: the caller's.
    unsafe { &*instrument::tool_address().cast::<T>() }
}

/// What the tool keeps for the calling thread.
///
/// # Safety
/// The tool must be of this type, and nobody else may use what it keeps for this thread.
pub(crate) unsafe fn thread_state<'a, T: Tool>() -> &'a mut T::Thread {
    // SAFETY: the caller's.
    unsafe { &mut *instrument::thread_state().cast::<T::Thread>() }
}

/// Both.
///
/// # Safety
/// As for each.
pub(crate) unsafe fn tool_and_state<'a, T: Tool>() -> (&'a T, &'a mut T::Thread) {
    // SAFETY: the caller's.
    unsafe { (tool::<T>(), thread_state::<T>()) }
}
