//! Traced functions: calls with their arguments, returns with their values; and those by which a
//! program says something of itself.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_binary::{FileOffset, FunctionNames, Module, RuntimeAddress};
use unspool_events::{Event, Function, FunctionId, TraceWriter};

use super::Tracer;
use super::annotations::{self, Annotation};
use super::selection;
use crate::detach;
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
    library: annotations::Library,
    any: AtomicBool,
    hooks: Mutex<Hooks>,
}

#[derive(Default)]
struct Hooks {
    entries: HashMap<u64, Entry>,
    /// Return addresses of traced calls.
    returns: HashSet<u64>,
    next: u32,
    /// The names that were found, by the number of the function.
    found: Vec<String>,
    /// Whether any function that was asked for was called.
    any_called: bool,
}

/// What a function is that begins at an address.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// One that is traced.
    traced: Option<FunctionId>,
    /// One by which the program says something of itself.
    said: Option<Annotation>,
}

impl Functions {
    pub(super) fn new(names: &[String]) -> Functions {
        Functions {
            names: FunctionNames::new(names.iter().map(String::as_str)),
            library: annotations::Library::default(),
            any: AtomicBool::new(false),
            hooks: Mutex::default(),
        }
    }

    /// Finds the wanted functions of a module that was mapped.
    pub(super) fn find_in(&self, module: &Module, address: u64, offset: u64, writer: &TraceWriter) {
        let found = self.names.find_in(module);
        let library = self.library.find_in(module);
        if found.is_empty() && library.is_empty() {
            return;
        }
        let Some(bias) = module.bias_of_mapping(RuntimeAddress(address), FileOffset(offset), true)
        else {
            return;
        };
        let mut hooks = self.hooks.lock();
        for (address, said) in library {
            let address = address.in_program(bias).0;
            if !annotations::is_marked(address) {
                hooks.entries.entry(address).or_default().said = Some(said);
                self.any.store(true, Ordering::Release);
            }
        }
        for found in found {
            let address = found.function.address().in_program(bias).0;
            let id = FunctionId(hooks.next);
            hooks.next += 1;
            writer.define_function(&Function {
                id,
                name: found.asked.to_owned(),
                address,
            });
            hooks.found.push(found.asked.to_owned());
            hooks.entries.entry(address).or_default().traced = Some(id);
            self.any.store(true, Ordering::Release);
        }
    }

    /// What has become of the names that were asked for.
    pub(super) fn asked(&self) -> selection::Functions {
        let hooks = self.hooks.lock();
        let names = self.names.iter().map(str::to_owned);
        let (uncalled, unknown) = names.partition(|name| hooks.found.contains(name));
        selection::Functions {
            unknown,
            uncalled,
            any_called: hooks.any_called,
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
    let entry = tracer.functions.hooks.lock().entries.get(&pc).copied();
    let Entry { traced, said } = entry.unwrap_or_default();
    if let Some(id) = traced {
        enter(process, tracer, thread, id);
    }
    if let Some(said) = said {
        annotations::annotation(thread, said);
        detach::annotation(thread, said);
    }
}

/// A traced function is called.
fn enter(process: &Process, tracer: &Tracer, thread: &mut Thread, id: FunctionId) {
    // SAFETY: as in `function`.
    let Some(trace) = (unsafe { thread.trace.as_mut() }) else {
        return;
    };
    let stack_pointer = thread.register(gpr::RSP);
    tracer.functions.hooks.lock().any_called = true;
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
