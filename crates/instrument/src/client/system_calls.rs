//! System calls, as the tool is told of them.

use unspool_engine::call::{Call, SYSCALL_LENGTH};
use unspool_engine::thread::Thread;

use super::synchronisation;
use crate::growth;
use crate::in_tool::{in_tool, state};
use crate::{CallWhenOver, Instrumenter, SystemCall, SystemCallValue, buffers, each_access};

/// A system call begins.
pub(super) fn asked(instrumenter: &Instrumenter, thread: &Thread, call: &mut Call) {
    each_access::settle();
    growth::tell(state(thread));
    buffers::hand_over_at_system_call();
    let mut seen = SystemCall {
        number: call.number,
        arguments: call.arguments,
    };
    // SAFETY: the state is this thread's.
    in_tool(|| unsafe {
        instrumenter
            .tool
            .system_call_enters(state(thread), &mut seen);
    });
    (call.number, call.arguments) = (seen.number, seen.arguments);
    synchronisation::call_begins(instrumenter, thread, call);
}

/// A system call is over. The tool may change its result.
pub(super) fn over(instrumenter: &Instrumenter, thread: &Thread, call: &Call, result: &mut i64) {
    synchronisation::call_over(instrumenter, thread, call, *result);
    let seen = SystemCall {
        number: call.number,
        arguments: call.arguments,
    };
    // SAFETY: the state is this thread's.
    in_tool(|| unsafe {
        instrumenter
            .tool
            .system_call_leaves(state(thread), &seen, result);
    });
}

/// The thread stands behind a system call that is over, with its result in place.
pub(super) fn returned(instrumenter: &Instrumenter, thread: &Thread, call: &Call, result: i64) {
    let Some(calls) = instrumenter.system_calls.at(thread.pc() - SYSCALL_LENGTH) else {
        return;
    };
    for CallWhenOver {
        function,
        arguments,
    } in &*calls
    {
        let words = arguments.map(|argument| match argument {
            None => 0,
            Some(SystemCallValue::Constant(value)) => value,
            Some(SystemCallValue::Register(number)) => thread.register(number),
            Some(SystemCallValue::Number) => call.number,
            Some(SystemCallValue::Argument(number)) => call.arguments[usize::from(number)],
            Some(SystemCallValue::Result) => result as u64,
        });
        in_tool(|| function(words.as_ptr()));
    }
}
