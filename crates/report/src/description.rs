//! What a trace says of itself, for formats whose rows have no room for it: the program, the
//! order, how it ended, and when each module was where.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use unspool_events::{
    Event, FunctionId, Mapping, Module, ModuleId, ProcessEvent, Sink, SystemCall, ThreadId, Trace,
    TraceHeader, TracedFunction,
};

use crate::buffered_output::push_bytes;
use crate::placed_module::PlacedModule;

/// The version of what is written as JSON: of the description, and of the lines that follow
/// it. It grows when a field changes its meaning or goes away; fields may be added without
/// notice.
pub const SCHEMA_VERSION: u32 = 1;

/// The numbers of the system calls that end a process.
const EXIT_GROUP: u32 = 231;

/// What is known of a trace besides its rows.
///
/// As a [`Sink`] it learns from the events that pass when modules came and went and how the
/// program ended, so that it is whole once everything was read.
#[derive(Debug, Clone)]
pub struct Description {
    header: TraceHeader,
    modules: BTreeMap<ModuleId, PlacedModule>,
    functions: BTreeMap<FunctionId, TracedFunction>,
    is_complete: Option<bool>,
    end: Option<End>,
}

/// How the program ended, as far as the trace tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It called `exit_group`.
    Exit { status: u8, time: u64 },
    /// It became another program.
    Exec { time: u64 },
}

impl Description {
    /// Of a trace of which only the start is known yet.
    #[must_use]
    pub fn new(header: &TraceHeader) -> Description {
        Description {
            header: header.clone(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            is_complete: None,
            end: None,
        }
    }

    /// Of a file, with its tables.
    #[must_use]
    pub fn of_trace(trace: &Trace) -> Description {
        let mut description = Description::new(trace.header());
        description.is_complete = Some(trace.is_complete());
        let (modules, functions) = (trace.modules(), trace.functions());
        modules.iter().for_each(|module| description.module(module));
        functions
            .iter()
            .for_each(|function| description.function(function));
        description
    }

    /// Notes whether a stream was whole, which is known at its end.
    pub fn set_complete(&mut self, is_complete: bool) {
        self.is_complete = Some(is_complete);
    }

    /// The description as `docs/exports.md` describes it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = self.without_modules();
        let modules = self.modules.values().map(|placed| {
            let mut object = module_object(&placed.module);
            object.insert("loaded".to_owned(), placed.loaded.into());
            object.insert("unloaded".to_owned(), placed.unloaded.into());
            Value::Object(object)
        });
        object.insert("modules".to_owned(), modules.collect());
        Value::Object(object)
    }

    /// The same without the modules, for formats that have a table of them.
    pub(crate) fn without_modules(&self) -> Map<String, Value> {
        let mut object = header_object(&self.header);
        object.insert("functions".to_owned(), functions(self.functions.values()));
        object.insert("complete".to_owned(), self.is_complete.into());
        object.insert("end".to_owned(), self.end_object());
        object
    }

    /// What was known when the trace began.
    pub(crate) fn header(&self) -> &TraceHeader {
        &self.header
    }

    /// The modules, by number.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &PlacedModule> {
        self.modules.values()
    }

    fn end_object(&self) -> Value {
        match self.end {
            Some(End::Exit { status, time }) => {
                json!({ "how": "exit", "status": status, "time": time })
            }
            Some(End::Exec { time }) => json!({ "how": "exec", "time": time }),
            None => Value::Null,
        }
    }
}

impl Sink for Description {
    fn module(&mut self, module: &Module) {
        // What was learned of its times stays where a reader tells of it a second time.
        let entry = self.modules.entry(module.id);
        entry.or_insert_with(|| PlacedModule::new(module));
    }

    fn function(&mut self, function: &TracedFunction) {
        self.functions.insert(function.id, function.clone());
    }

    fn event(&mut self, _: ThreadId, time: u64, event: &Event) {
        match *event {
            Event::Mapping(Mapping::ModuleLoad { module })
            | Event::Mapping(Mapping::ModuleUnload { module }) => {
                if let Some(placed) = self.modules.get_mut(&module) {
                    placed.event(time, event);
                }
            }
            Event::SystemCall(SystemCall::Entry {
                number: EXIT_GROUP,
                arguments: [status, ..],
            }) => {
                let status = status as u8;
                self.end = Some(End::Exit { status, time });
            }
            Event::Process(ProcessEvent::Exec) => self.end = Some(End::Exec { time }),
            _ => {}
        }
    }
}

/// What was known when the trace began.
pub(crate) fn header_object(header: &TraceHeader) -> Map<String, Value> {
    let options: BTreeMap<_, _> = header.options.iter().cloned().collect();
    let arguments = header.arguments.iter().map(|argument| lossy(argument));
    let fields = [
        ("schema", "unspool-trace".into()),
        ("version", SCHEMA_VERSION.into()),
        ("order", header.order.name().into()),
        ("granule", header.granule.into()),
        ("program", lossy(&header.program).into()),
        ("arguments", arguments.collect()),
        ("options", json!(options)),
        ("process", header.process.into()),
        ("parent_process", header.parent_process.into()),
        ("start_unix_ns", header.start_unix_ns.into()),
        ("tool_version", header.tool_version.as_str().into()),
    ];
    object(fields)
}

fn object<const COUNT: usize>(fields: [(&str, Value); COUNT]) -> Map<String, Value> {
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    fields.into_iter().collect()
}

/// A module as an object.
pub(crate) fn module_object(module: &Module) -> Map<String, Value> {
    let fields = [
        ("module", module.id.0.into()),
        ("path", lossy(&module.path).into()),
        ("base", format!("{:#x}", module.base).into()),
        ("size", module.size.into()),
        ("build_id", hexadecimal(&module.build_id).into()),
    ];
    object(fields)
}

/// Functions as objects.
pub(crate) fn functions<'a>(functions: impl Iterator<Item = &'a TracedFunction>) -> Value {
    let described = |function: &TracedFunction| {
        json!({
            "function": function.id.0,
            "name": function.name,
            "address": format!("{:#x}", function.address),
        })
    };
    functions.map(described).collect()
}

pub(crate) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    push_bytes(&mut text, bytes);
    lossy(&text)
}

#[cfg(test)]
mod tests;
