//! What a tool is told of system calls: of all of them where they begin and end, and where they
//! are over behind instructions that it chose.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_kernel::lock::RwLock;

use super::client::{in_tool, state};
use super::{Instrumenter, MOST_ARGUMENTS, buffers};
use unspool_engine::call::{Call, SYSCALL_LENGTH};
use unspool_engine::thread::Thread;

/// A system call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number.
    pub number: u64,
    /// Its six arguments, used or not.
    pub arguments: [u64; 6],
}

/// A value when a system call is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCallValue {
    /// A constant.
    Constant(u64),
    /// A general register, by its number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, …, r15 15).
    Register(u8),
    /// The call's number.
    Number,
    /// An argument of it, by its number, 0 to 5.
    Argument(u8),
    /// What it has returned.
    Result,
}

/// A call of a tool's function when a system call is over.
#[derive(Debug, Clone, Copy)]
pub struct CallWhenOver {
    /// What is called, with the address of its arguments' words.
    pub function: extern "C" fn(*const u64),
    /// With what: those up to the first that is missing.
    pub arguments: [Option<SystemCallValue>; MOST_ARGUMENTS],
}

/// What is to be called behind which instructions.
#[derive(Debug, Default)]
pub(crate) struct SystemCallPlaces {
    any: AtomicBool,
    places: RwLock<HashMap<u64, Arc<[CallWhenOver]>>>,
}

impl SystemCallPlaces {
    /// The instruction at an address is translated, with these calls behind it.
    pub(crate) fn set(&self, pc: u64, calls: &[(u32, CallWhenOver)]) {
        if calls.is_empty() && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut places = self.places.write();
        match calls {
            [] => drop(places.remove(&pc)),
            _ => drop(places.insert(pc, calls.iter().map(|(_, call)| *call).collect())),
        }
        self.any.store(true, Ordering::Release);
    }

    fn at(&self, pc: u64) -> Option<Arc<[CallWhenOver]>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let places = self.places.read();
        places.get(&pc).cloned()
    }
}

/// A system call begins.
pub(super) fn asked(instrumenter: &Instrumenter, thread: &Thread, call: &mut Call) {
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
}

/// A system call is over. The tool may change its result.
pub(super) fn over(instrumenter: &Instrumenter, thread: &Thread, call: &Call, result: &mut i64) {
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
