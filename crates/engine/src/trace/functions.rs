//! Traced functions: calls with their arguments, returns with their values.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_binary::{FileOffset, FunctionNames, Module, RuntimeAddress};
use unspool_events::{Event, Function, FunctionId, TraceWriter};

use crate::emit::gpr;
use crate::guarded;
use crate::lock::Mutex;
use crate::process::Process;
use crate::thread::Thread;

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    function: FunctionId,
    stack_pointer: u64,
    return_address: u64,
}

/// Which addresses are of interest.
pub(super) struct Functions {
    names: FunctionNames,
    any: AtomicBool,
    hooks: Mutex<Hooks>,
}

#[derive(Default)]
struct Hooks {
    entries: HashMap<u64, FunctionId>,
    /// Return addresses of traced calls.
    returns: std::collections::HashSet<u64>,
    next: u32,
}

impl Functions {
    pub(super) fn new(names: &[String]) -> Functions {
        Functions {
            names: FunctionNames::new(names.iter().map(String::as_str)),
            any: AtomicBool::new(false),
            hooks: Mutex::default(),
        }
    }

    /// Finds the wanted functions of a module that was mapped.
    pub(super) fn find_in(&self, module: &Module, address: u64, offset: u64, writer: &TraceWriter) {
        if self.names.is_empty() {
            return;
        }
        let Some(bias) = module.bias_of_mapping(RuntimeAddress(address), FileOffset(offset), true)
        else {
            return;
        };
        let mut hooks = self.hooks.lock();
        for found in self.names.find_in(module) {
            let address = found.function.address().in_program(bias).0;
            let id = FunctionId(hooks.next);
            hooks.next += 1;
            writer.define_function(&Function {
                id,
                name: found.asked.to_owned(),
                address,
            });
            hooks.entries.insert(address, id);
            self.any.store(true, Ordering::Release);
        }
    }

    /// Whether control at an address is to be seen.
    pub(super) fn is_hooked(&self, pc: u64) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let hooks = self.hooks.lock();
        hooks.entries.contains_key(&pc) || hooks.returns.contains(&pc)
    }
}

/// Control reached a hooked address: a traced function starts there, or a call returns there.
pub(crate) fn function(thread: &mut Thread, pc: u64) {
    let process = Process::get();
    let Some(tracer) = &process.trace else { return };
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let Some(trace) = (unsafe { thread.trace.as_mut() }) else {
        return;
    };
    let stack_pointer = thread.register(gpr::RSP);
    // Frames below the stack pointer were left by a jump out of them.
    while let Some(&frame) = trace.frames.last() {
        if frame.stack_pointer >= stack_pointer {
            break;
        }
        trace.frames.pop();
        if frame.return_address == pc && frame.stack_pointer + 8 == stack_pointer {
            let value = thread.register(gpr::RAX);
            let event = Event::FunctionReturn {
                function: frame.function,
                stack_pointer: frame.stack_pointer,
                value,
            };
            trace.event(tracer, &event);
        }
    }
    let Some(id) = tracer.functions.hooks.lock().entries.get(&pc).copied() else {
        return;
    };
    let arguments = [gpr::RDI, gpr::RSI, gpr::RDX].map(|register| thread.register(register));
    trace.event(
        tracer,
        &Event::FunctionCall {
            function: id,
            stack_pointer,
            arguments,
        },
    );
    let Some(return_address) = guarded::read_word(stack_pointer) else {
        return;
    };
    trace.frames.push(Frame {
        function: id,
        stack_pointer,
        return_address,
    });
    if tracer.functions.hooks.lock().returns.insert(return_address) {
        // A translation without the hook would not notice the return.
        process
            .code()
            .cache
            .invalidate(return_address..return_address + 1);
    }
}
