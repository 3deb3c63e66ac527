//! The names that events refer to by number.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use unspool_events::{FunctionId, Module, ModuleId, Trace, TracedFunction};

/// Functions and modules by their ids.
#[derive(Debug, Clone, Default)]
pub struct Names {
    functions: FxHashMap<FunctionId, TracedFunction>,
    modules: FxHashMap<ModuleId, Module>,
}

impl Names {
    /// No names: for sinks that are told them as the trace goes by.
    #[must_use]
    pub fn new() -> Names {
        Names::default()
    }

    /// All names in a trace.
    #[must_use]
    pub fn of_trace(trace: &Trace) -> Names {
        let mut names = Names::new();
        trace
            .functions()
            .iter()
            .for_each(|function| names.add_function(function));
        trace
            .modules()
            .iter()
            .for_each(|module| names.add_module(module));
        names
    }

    /// Adds a function.
    pub fn add_function(&mut self, function: &TracedFunction) {
        self.functions.insert(function.id, function.clone());
    }

    /// Adds a module.
    pub fn add_module(&mut self, module: &Module) {
        self.modules.insert(module.id, module.clone());
    }

    /// The name of a function; `function#N` where its definition was lost.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> Cow<'_, str> {
        match self.functions.get(&id) {
            Some(function) => Cow::Borrowed(function.name.as_str()),
            None => Cow::Owned(format!("function#{}", id.0)),
        }
    }

    /// A module, unless its definition was lost.
    #[must_use]
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(&id)
    }
}
