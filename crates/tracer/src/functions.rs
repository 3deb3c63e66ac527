//! Traced functions: calls with their arguments, returns with their values; and those by which a
//! program says something of itself.
//!
//! What stands at the address of an indirect function (`STT_GNU_IFUNC`) only chooses the code that
//! does the named work. Its calls are followed for what they return: those are the function.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_binary::{FileOffset, FunctionKind, FunctionNames, Module, RuntimeAddress};
use unspool_code_cache::emit::gpr;
use unspool_events::{Event, FunctionId, RecordSink, Span, TracedFunction};
use unspool_kernel::guarded;
use unspool_kernel::lock::Mutex;

use crate::annotations;
use crate::selection;
use crate::trace_buffer::TraceBuffer;
use unspool_engine::annotation::Annotation;
use unspool_engine::process::Process;
use unspool_engine::thread::Thread;

/// A call that has not returned.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    called: Called,
    stack_pointer: u64,
    return_address: u64,
}

/// What was called.
#[derive(Debug, Clone)]
enum Called {
    TracedFunction {
        function: FunctionId,
        /// Where it leaves its result, if not in a register.
        result_at: Option<u64>,
    },
    /// What chooses the code of the function with this name.
    Resolver(String),
}

/// Functions that leave their result where their first argument points.
const STORING: [&str; 1] = ["posix_memalign"];

/// Which addresses are of interest.
pub(crate) struct Functions {
    names: FunctionNames,
    library: annotations::Library,
    any: AtomicBool,
    hooks: Mutex<Hooks>,
}

#[derive(Default)]
struct Hooks {
    entries: HashMap<u64, EnteredFunction>,
    /// What was chosen for a name.
    chosen: BTreeSet<(u64, String)>,
    /// Return addresses of traced calls.
    returns: HashSet<u64>,
    next: u32,
    /// Names that some module has.
    found: BTreeSet<String>,
    /// Whether any function that was asked for was called.
    any_called: bool,
}

/// What a function is that begins at an address.
#[derive(Debug, Clone, Default)]
struct EnteredFunction {
    /// Those that are traced, since several names may stand for the same code, and whether they leave
    /// their result where their first argument points.
    traced: Vec<(FunctionId, bool)>,
    /// One that chooses the code of a function with this name.
    chooses: Option<String>,
    /// One by which the program says something of itself.
    said: Option<Annotation>,
}

impl Hooks {
    fn entry(&mut self, address: u64) -> &mut EnteredFunction {
        self.entries.entry(address).or_default()
    }

    fn add(&mut self, address: u64, name: &str, writer: &dyn RecordSink) {
        let id = FunctionId(self.next);
        self.next += 1;
        writer.define_function(&TracedFunction {
            id,
            name: name.to_owned(),
            address,
        });
        self.entry(address)
            .traced
            .push((id, STORING.contains(&name)));
    }
}

impl Functions {
    pub(crate) fn new(names: &[String]) -> Functions {
        Functions {
            names: FunctionNames::new(names.iter().map(String::as_str)),
            library: annotations::Library::default(),
            any: AtomicBool::new(false),
            hooks: Mutex::default(),
        }
    }

    /// Finds the wanted functions of a module that was mapped.
    pub(crate) fn find_in(
        &self,
        module: &Module,
        address: u64,
        offset: u64,
        writer: &dyn RecordSink,
    ) {
        let found = module.functions_named(&self.names);
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
                hooks.entry(address).said = Some(said);
                self.any.store(true, Ordering::Release);
            }
        }
        let mut here: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        for found in found {
            let address = found.function.address().in_program(bias).0;
            hooks.found.insert(found.asked.to_owned());
            if found.function.kind() == FunctionKind::Resolver {
                hooks.entry(address).chooses = Some(found.asked.to_owned());
            } else {
                here.entry(address).or_default().insert(found.asked);
            }
            self.any.store(true, Ordering::Release);
        }
        for (address, names) in here {
            // What was there before is gone.
            hooks.entry(address).traced.clear();
            for name in names {
                hooks.add(address, name, writer);
            }
        }
    }

    /// What has become of the names that were asked for.
    pub(crate) fn asked(&self) -> selection::AskedFunctions {
        let hooks = self.hooks.lock();
        let names = self.names.iter().map(str::to_owned);
        let (uncalled, unknown) = names.partition(|name| hooks.found.contains(name));
        selection::AskedFunctions {
            unknown,
            uncalled,
            any_called: hooks.any_called,
        }
    }

    /// Whether control at an address is to be seen.
    pub(crate) fn is_hooked(&self, pc: u64) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let hooks = self.hooks.lock();
        hooks.entries.contains_key(&pc) || hooks.returns.contains(&pc)
    }

    /// The functions that were chosen, in a file of its own, when its modules are known.
    pub(crate) fn define_chosen(&self, writer: &dyn RecordSink) {
        let mut hooks = self.hooks.lock();
        let chosen = hooks.chosen.clone();
        for (address, _) in &chosen {
            hooks.entry(*address).traced.clear();
        }
        for (address, name) in &chosen {
            hooks.add(*address, name, writer);
        }
    }

    /// Control has reached a hooked address: a traced function starts there, or a call returns there.
    /// Gives what the program says by that, if it says something.
    pub(crate) fn reached(
        &self,
        thread: &Thread,
        buffer: &mut TraceBuffer,
        frames: &mut Vec<Frame>,
        pc: u64,
    ) -> Option<Annotation> {
        self.leave(thread, buffer, frames, pc);
        let entry = self.hooks.lock().entries.get(&pc).cloned()?;
        let functions = entry.traced.into_iter().map(|(function, stores_result)| {
            let result_at = stores_result.then(|| thread.register(gpr::RDI));
            Called::TracedFunction {
                function,
                result_at,
            }
        });
        let called: Vec<Called> = functions
            .chain(entry.chooses.map(Called::Resolver))
            .collect();
        if !called.is_empty() {
            self.enter(thread, buffer, frames, called);
        }
        entry.said
    }

    /// Calls have returned.
    fn leave(&self, thread: &Thread, buffer: &mut TraceBuffer, frames: &mut Vec<Frame>, pc: u64) {
        let stack_pointer = thread.register(gpr::RSP);
        // Frames below the stack pointer were left by a jump out of them.
        while let Some(frame) = frames.pop_if(|frame| frame.stack_pointer < stack_pointer) {
            if frame.return_address != pc || frame.stack_pointer + 8 != stack_pointer {
                continue;
            }
            let value = thread.register(gpr::RAX);
            match frame.called {
                Called::Resolver(name) => {
                    let sink = buffer.recording.sink();
                    self.choose(thread.process, value, &name, &*sink);
                }
                Called::TracedFunction {
                    function,
                    result_at,
                } => {
                    buffer.event(&Event::Span(Span::FunctionReturn {
                        function,
                        stack_pointer: frame.stack_pointer,
                        value,
                        stored: result_at.and_then(guarded::read_word),
                    }));
                }
            }
        }
    }

    /// Functions are called, all of which begin where the thread is.
    fn enter(
        &self,
        thread: &Thread,
        buffer: &mut TraceBuffer,
        frames: &mut Vec<Frame>,
        called: Vec<Called>,
    ) {
        let stack_pointer = thread.register(gpr::RSP);
        let arguments = [gpr::RDI, gpr::RSI, gpr::RDX].map(|register| thread.register(register));
        let return_address = guarded::read_word(stack_pointer);
        for called in called {
            if let Called::TracedFunction { function, .. } = called {
                self.hooks.lock().any_called = true;
                buffer.event(&Event::Span(Span::FunctionCall {
                    function,
                    stack_pointer,
                    arguments,
                }));
            }
            if let Some(return_address) = return_address {
                frames.push(Frame {
                    called,
                    stack_pointer,
                    return_address,
                });
            }
        }
        let Some(return_address) = return_address else {
            return;
        };
        let is_new = self.hooks.lock().returns.insert(return_address);
        if is_new {
            translate_anew(thread.process, return_address);
        }
    }

    /// Code was chosen for a name. (Each module that refers to it has it chosen anew.)
    fn choose(&self, process: &Process, address: u64, name: &str, writer: &dyn RecordSink) {
        let mut hooks = self.hooks.lock();
        if hooks.chosen.insert((address, name.to_owned())) {
            hooks.add(address, name, writer);
            drop(hooks);
            translate_anew(process, address);
        }
    }
}

/// A translation without a hook would not notice what happens there.
fn translate_anew(process: &Process, address: u64) {
    process.code().cache.invalidate(address..address + 1);
}
