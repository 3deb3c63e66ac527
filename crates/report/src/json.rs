//! JSON lines: a header object, then one object for each access, value and event.
//! `docs/exports.md` describes them.

use std::io::Write;

use serde_json::Value;
use unspool_events::{
    Access, AccessFlags, AccessKind, Event, InstructionEvent, Loss, Mapping, MemoryEffect, Module,
    ProcessEvent, Sink, Span, Synchronisation, SystemCall, ThreadEvent, ThreadId, TraceHeader,
    TracedFunction,
};

use crate::buffered_output::{BufferedOutput, push_bytes, push_decimal, push_hexadecimal};
use crate::description;
use crate::event_row::{kind_name, sync_operation_name};
use crate::{ExportError, Names};

/// Writes JSON lines.
///
/// Addresses, program counters, registers and arguments are strings like `"0x7ffe12"`,
/// because many JSON readers keep only 53 bits of a number.
#[derive(Debug)]
pub struct JsonExporter<W> {
    output: BufferedOutput<W>,
    names: Names,
}

impl<W: Write> JsonExporter<W> {
    /// Writes to `output`, in large pieces; the header line first.
    pub fn new(
        output: W,
        names: Names,
        header: &TraceHeader,
        modules: &[Module],
        functions: &[TracedFunction],
    ) -> Self {
        let mut output = BufferedOutput::new(output);
        let line = header_line(header, modules, functions);
        let text = output.text();
        text.extend_from_slice(line.to_string().as_bytes());
        text.push(b'\n');
        JsonExporter { output, names }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first error of the output, from whenever it happened.
    pub fn finish(self) -> Result<(), ExportError> {
        self.output.finish()
    }
}

/// What was known when the trace began, and its tables.
fn header_line(header: &TraceHeader, modules: &[Module], functions: &[TracedFunction]) -> Value {
    let mut object = description::header_object(header);
    let modules = modules.iter().map(description::module_object);
    object.insert("modules".to_owned(), modules.map(Value::Object).collect());
    let functions = description::functions(functions.iter());
    object.insert("functions".to_owned(), functions);
    Value::Object(object)
}

impl<W: Write> Sink for JsonExporter<W> {
    fn settled(&mut self) {
        self.output.pass_on_all();
    }

    fn module(&mut self, module: &Module) {
        self.names.add_module(module);
    }

    fn function(&mut self, function: &TracedFunction) {
        self.names.add_function(function);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        for access in batch {
            let text = self.output.text();
            let kind = match access.kind {
                AccessKind::Read => "read",
                AccessKind::Write => "write",
            };
            push_access(text, thread, access, kind);
            text.extend_from_slice(b"}\n");
            self.output.pass_on();
        }
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        let mut object = Object::start(self.output.text(), time, thread, kind_name(event));
        push_fields(&mut object, event, &self.names);
        object.text.extend_from_slice(b"}\n");
        self.output.pass_on();
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        for (access, value) in accesses
            .iter()
            .zip(values)
            .filter(|(_, value)| !value.is_empty())
        {
            let text = self.output.text();
            let kind = match access.kind {
                AccessKind::Read => "read_value",
                AccessKind::Write => "write_value",
            };
            push_access(text, thread, access, kind);
            text.extend_from_slice(b",\"value\":\"");
            push_bytes(text, value);
            text.extend_from_slice(b"\"}\n");
            self.output.pass_on();
        }
    }
}

/// An access, without its closing brace.
fn push_access(text: &mut Vec<u8>, thread: ThreadId, access: &Access, kind: &str) {
    let mut object = Object::start(text, access.time, thread, kind);
    object.hexadecimal("pc", access.pc);
    object.hexadecimal("address", access.address);
    object.number("size", access.size);
    for (name, flag) in [
        ("atomic", AccessFlags::ATOMIC),
        ("failed_cas", AccessFlags::FAILED_CAS),
        ("first", AccessFlags::FIRST),
        ("non_temporal", AccessFlags::NON_TEMPORAL),
    ] {
        object.boolean(name, access.flags.contains(flag));
    }
}

/// The fields that only this kind of event has.
fn push_fields(object: &mut Object<'_>, event: &Event, names: &Names) {
    match event {
        Event::Thread(ThreadEvent::Start { os_thread, parent }) => {
            object.number("os_thread", *os_thread);
            match parent {
                Some(parent) => object.number("parent", parent.0),
                None => object.null("parent"),
            }
        }
        Event::Thread(ThreadEvent::Registered { number, name }) => {
            object.number("number", *number);
            object.string("name", name);
        }
        Event::Thread(ThreadEvent::Pointer { address, .. }) => {
            object.hexadecimal("address", *address)
        }
        Event::Span(Span::FunctionCall {
            function,
            stack_pointer,
            arguments,
        }) => {
            object.number("function", function.0);
            object.string("name", &names.function(*function));
            object.hexadecimal("stack_pointer", *stack_pointer);
            object.hexadecimals("arguments", arguments);
        }
        Event::Span(Span::FunctionReturn {
            function,
            stack_pointer,
            value,
            stored,
        }) => {
            object.number("function", function.0);
            object.string("name", &names.function(*function));
            object.hexadecimal("stack_pointer", *stack_pointer);
            object.hexadecimal("value", *value);
            if let Some(stored) = stored {
                object.hexadecimal("stored", *stored);
            }
        }
        Event::Span(Span::FurtherArguments { arguments }) => {
            object.hexadecimals("arguments", arguments);
        }
        Event::Span(Span::Dependence {
            dependence,
            address,
        }) => {
            object.string("dependence", dependence.name());
            object.hexadecimal("address", *address);
        }
        Event::Thread(ThreadEvent::HandlerCalled { signal }) => object.number("signal", *signal),
        Event::Synchronisation(Synchronisation {
            operation,
            object: synchronised,
        }) => {
            object.string("operation", sync_operation_name(*operation));
            object.hexadecimal("object", *synchronised);
        }
        Event::SystemCall(SystemCall::Entry { number, arguments }) => {
            object.number("number", *number);
            object.hexadecimals("arguments", arguments);
        }
        Event::SystemCall(SystemCall::Exit { number, result }) => {
            object.number("number", *number);
            object.number("result", *result);
        }
        Event::MemoryEffect(MemoryEffect {
            write,
            address,
            size,
        }) => {
            object.boolean("write", *write);
            object.hexadecimal("address", *address);
            object.number("size", *size);
        }
        Event::Mapping(Mapping::Shared {
            address,
            size,
            device,
            inode,
            offset,
            own,
        }) => {
            object.hexadecimal("address", *address);
            object.number("size", *size);
            object.hexadecimal("device", *device);
            object.number("inode", *inode);
            object.number("offset", *offset);
            object.boolean("own", *own);
        }
        Event::Instruction(InstructionEvent::CacheLine { pc, address, .. }) => {
            object.hexadecimal("pc", *pc);
            object.hexadecimal("address", *address);
        }
        Event::Instruction(InstructionEvent::Fence { pc, .. }) => object.hexadecimal("pc", *pc),
        Event::Instruction(InstructionEvent::Fetch { pc, size }) => {
            object.hexadecimal("pc", *pc);
            object.number("size", *size);
        }
        Event::Mapping(Mapping::ModuleLoad { module } | Mapping::ModuleUnload { module }) => {
            object.number("module", module.0);
            if let Some(module) = names.module(*module) {
                object.string("path", &String::from_utf8_lossy(&module.path));
            }
        }
        Event::Process(ProcessEvent::Fork { child }) => object.number("child", *child),
        Event::Loss(Loss { words, reason }) => {
            object.number("words", *words);
            object.string("reason", reason);
        }
        Event::Thread(ThreadEvent::End | ThreadEvent::ClockMoved)
        | Event::Span(Span::RegionStart | Span::RegionEnd)
        | Event::Process(ProcessEvent::Exec) => {}
    }
}

/// An object that is being written.
struct Object<'a> {
    text: &'a mut Vec<u8>,
}

impl<'a> Object<'a> {
    /// The opening brace and the fields that every line has.
    fn start(text: &'a mut Vec<u8>, time: u64, thread: ThreadId, kind: &str) -> Object<'a> {
        text.extend_from_slice(b"{\"time\":");
        push_decimal(text, time);
        text.extend_from_slice(b",\"thread\":");
        push_decimal(text, thread.0);
        text.extend_from_slice(b",\"kind\":\"");
        text.extend_from_slice(kind.as_bytes());
        text.push(b'"');
        Object { text }
    }

    fn field(&mut self, name: &str) {
        self.text.extend_from_slice(b",\"");
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
    }

    fn number(&mut self, name: &str, value: impl itoa::Integer) {
        self.field(name);
        push_decimal(self.text, value);
    }

    fn hexadecimal(&mut self, name: &str, value: u64) {
        self.field(name);
        self.text.push(b'"');
        push_hexadecimal(self.text, value);
        self.text.push(b'"');
    }

    fn hexadecimals(&mut self, name: &str, values: &[u64]) {
        self.field(name);
        self.text.push(b'[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.text.push(b',');
            }
            self.text.push(b'"');
            push_hexadecimal(self.text, *value);
            self.text.push(b'"');
        }
        self.text.push(b']');
    }

    fn boolean(&mut self, name: &str, value: bool) {
        self.field(name);
        self.text
            .extend_from_slice(if value { b"true" } else { b"false" });
    }

    fn null(&mut self, name: &str) {
        self.field(name);
        self.text.extend_from_slice(b"null");
    }

    fn string(&mut self, name: &str, value: &str) {
        self.field(name);
        // A Value prints itself as JSON, with everything escaped that must be.
        let quoted = serde_json::Value::from(value).to_string();
        self.text.extend_from_slice(quoted.as_bytes());
    }
}
