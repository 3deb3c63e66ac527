//! Traced functions: calls with their arguments, returns with their values; and those by which a
//! program says something of itself.
//!
//! What stands at the address of an indirect function (`STT_GNU_IFUNC`) only chooses the code that
//! does the named work. Its calls are followed for what they return: those are the function. Functions
//! that a runtime of OpenMP is given to call are followed from then on, too.

mod openmp;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_binary::{
    FileOffset, FoundFunction, FunctionKind, FunctionNames, Module, RuntimeAddress,
};
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

use openmp::{Arguments, Noted};

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
    /// Those that are of interest where a runtime of OpenMP is.
    with_openmp: Option<WithOpenMp>,
    library: annotations::Library,
    any: AtomicBool,
    hooks: Mutex<Hooks>,
}

/// What is followed where a runtime of OpenMP is.
struct WithOpenMp {
    runtime: FunctionNames,
    beside: FunctionNames,
}

#[derive(Default)]
struct Hooks {
    entries: HashMap<u64, EnteredFunction>,
    /// Whether a runtime of OpenMP is there, and what is to be followed if one comes.
    has_openmp: bool,
    beside_openmp: Vec<(u64, String)>,
    /// What was chosen for a name, and what runtimes were given to be called.
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
    /// Those that are traced, since several names may stand for the same code.
    traced: Vec<Traced>,
    /// One that chooses the code of a function with this name.
    chooses: Option<String>,
    /// One by which the program says something of itself.
    said: Option<Annotation>,
}

/// A function that is traced.
#[derive(Debug, Clone, Copy)]
struct Traced {
    function: FunctionId,
    /// Whether it leaves its result where its first argument points.
    stores_result: bool,
    /// What else is noted of its calls.
    noted: Noted,
    /// Whether it is followed because a runtime of OpenMP is there: by itself it tells of no concurrency.
    is_beside: bool,
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
        self.entry(address).traced.push(Traced {
            function: id,
            stores_result: STORING.contains(&name),
            noted: openmp::noted_of(name),
            is_beside: false,
        });
    }

    /// Adds a function where what was there before is gone.
    fn add_anew(&mut self, address: u64, name: &str, writer: &dyn RecordSink) {
        self.entry(address).traced.clear();
        self.add(address, name, writer);
    }

    /// What is to be followed beside a runtime of OpenMP, once there is one. Returns where.
    fn begin_openmp(&mut self, writer: &dyn RecordSink) -> Vec<u64> {
        self.has_openmp = true;
        let beside = std::mem::take(&mut self.beside_openmp);
        for (address, name) in &beside {
            self.add_anew(*address, name, writer);
            let traced = &mut self.entry(*address).traced;
            traced.iter_mut().for_each(|it| it.is_beside = true);
        }
        beside.into_iter().map(|(address, _)| address).collect()
    }
}

impl Functions {
    /// Those with these names; and, if `with_openmp`, where a runtime of OpenMP is, its functions,
    /// what it calls, and those with the names that are given for that.
    pub(crate) fn new(names: &[String], with_openmp: Option<&[String]>) -> Functions {
        let with_openmp = with_openmp.map(|beside| {
            let beside = beside.iter().filter(|name| !names.contains(name));
            WithOpenMp {
                runtime: FunctionNames::new(openmp::NAMES),
                beside: FunctionNames::new(beside.map(String::as_str)),
            }
        });
        Functions {
            names: FunctionNames::new(names.iter().map(String::as_str)),
            with_openmp,
            library: annotations::Library::default(),
            any: AtomicBool::new(false),
            hooks: Mutex::default(),
        }
    }

    /// Finds the wanted functions of a module that was mapped. Returns where code that was mapped
    /// before is to be translated anew.
    #[must_use]
    pub(crate) fn find_in(
        &self,
        module: &Module,
        address: u64,
        offset: u64,
        writer: &dyn RecordSink,
    ) -> Vec<u64> {
        let found = module.functions_named(&self.names);
        let library = self.library.find_in(module);
        let (of_openmp, beside) = self.found_with_openmp(module);
        if found.is_empty() && library.is_empty() && of_openmp.is_empty() && beside.is_empty() {
            return Vec::new();
        }
        let Some(bias) = module.bias_of_mapping(RuntimeAddress(address), FileOffset(offset), true)
        else {
            return Vec::new();
        };
        let place = |found: &FoundFunction<'_, '_>| found.function.address().in_program(bias).0;
        let mut hooks = self.hooks.lock();
        for (address, said) in library {
            let address = address.in_program(bias).0;
            if !annotations::is_marked(address) {
                hooks.entry(address).said = Some(said);
                self.any.store(true, Ordering::Release);
            }
        }
        let mut here: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for found in found {
            let address = place(&found);
            hooks.found.insert(found.asked.to_owned());
            if found.function.kind() == FunctionKind::Resolver {
                hooks.entry(address).chooses = Some(found.asked.to_owned());
            } else {
                here.entry(address)
                    .or_default()
                    .insert(found.name().into_owned());
            }
            self.any.store(true, Ordering::Release);
        }
        for (address, names) in here {
            // What was there before is gone.
            hooks.entry(address).traced.clear();
            for name in names {
                hooks.add(address, &name, writer);
            }
        }
        hooks
            .beside_openmp
            .extend(beside.iter().map(|it| (place(it), it.asked.to_owned())));
        // Several symbols stand for the same code: one is enough.
        let of_openmp: BTreeMap<u64, FoundFunction<'_, '_>> =
            of_openmp.into_iter().map(|it| (place(&it), it)).collect();
        for (address, found) in &of_openmp {
            hooks.add_anew(*address, &found.name(), writer);
        }
        match hooks.has_openmp || !of_openmp.is_empty() {
            true => {
                self.any.store(true, Ordering::Release);
                hooks.begin_openmp(writer)
            }
            false => Vec::new(),
        }
    }

    /// The functions of a module that is a runtime of OpenMP, none where it is not, and those that are
    /// followed beside one.
    fn found_with_openmp<'module>(
        &self,
        module: &'module Module,
    ) -> (
        Vec<FoundFunction<'_, 'module>>,
        Vec<FoundFunction<'_, 'module>>,
    ) {
        let Some(with_openmp) = &self.with_openmp else {
            return Default::default();
        };
        let mut runtime = module.functions_named(&with_openmp.runtime);
        if !runtime
            .iter()
            .any(|it| openmp::is_of_runtime(it.function.symbol()))
        {
            runtime.clear();
        }
        (runtime, module.functions_named(&with_openmp.beside))
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

    /// Whether a function begins at an address whose calls are wanted for themselves.
    pub(crate) fn is_wanted(&self, pc: u64) -> bool {
        let hooks = self.hooks.lock();
        let entry = hooks.entries.get(&pc);
        entry.is_some_and(|entry| entry.traced.iter().any(|it| !it.is_beside))
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
        self.note_more(thread, buffer, &entry.traced);
        let functions = entry.traced.into_iter().map(|traced| {
            let result_at = traced.stores_result.then(|| thread.register(gpr::RDI));
            Called::TracedFunction {
                function: traced.function,
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

    /// Notes what is wanted of a call besides its first arguments, and has what it gives to be called
    /// followed.
    fn note_more(&self, thread: &Thread, buffer: &mut TraceBuffer, traced: &[Traced]) {
        let arguments = Arguments(thread);
        for Traced { noted, .. } in traced {
            if noted.has_further {
                buffer.event(&Event::Span(Span::FurtherArguments {
                    arguments: arguments.further(),
                }));
            }
            for (dependence, address) in noted.dependences(&arguments) {
                buffer.event(&Event::Span(Span::Dependence {
                    dependence,
                    address,
                }));
            }
            for (address, what) in noted.called_back(&arguments) {
                let sink = buffer.recording.sink();
                self.choose(thread.process, address, what.name(), &*sink);
            }
        }
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

    /// Code was chosen for a name, by a function or by who gives it to a runtime. (Each module that
    /// refers to it has it chosen anew, and each call gives it anew.)
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
pub(crate) fn translate_anew(process: &Process, address: u64) {
    process.code().cache.invalidate(address..address + 1);
}
