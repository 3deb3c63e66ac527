//! A trace as text for people: one line for each accessing instruction, with its disassembly and
//! the line of the source that it comes from, and one for each event. `docs/exports.md` describes
//! the columns.

mod code;
pub(crate) mod code_file;
mod mapped_modules;
mod plain_file;

use std::io::Write;
use std::ops::Range;

use unspool_events::{
    Access, AccessFlags, AccessKind, Event, InstructionEvent, Module, Sink, ThreadId, Trace,
    TraceHeader, TracedFunction,
};

use crate::buffered_output::{BufferedOutput, push_bytes, push_decimal, push_hexadecimal};
use crate::description::lossy;
use crate::event_row::EventRow;
use crate::instructions::instructions;
use crate::{ExportError, Names};
use code::Code;

/// What of a trace is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingOptions {
    /// The first time.
    pub from: u64,
    /// The last time.
    pub to: u64,
    /// Only what these threads do; of all where there are none.
    pub threads: Vec<ThreadId>,
    /// Only what touches one of these bytes of memory.
    pub addresses: Option<Range<u64>>,
}

/// Writes the listing.
#[derive(Debug)]
pub struct Listing<W> {
    output: BufferedOutput<W>,
    options: ListingOptions,
    names: Names,
    code: Code,
}

impl<W: Write> Listing<W> {
    /// Writes to `output`, in large pieces; first what the trace is of.
    ///
    /// The files of the modules are read where they are the ones that ran.
    pub fn new(output: W, trace: &Trace, options: ListingOptions) -> Self {
        let mut listing = Self::of_stream(output, trace.header(), options);
        listing.names = Names::of_trace(trace);
        listing.code = Code::of_trace(trace);
        listing
    }

    /// The same of a trace whose modules and functions come as it goes by.
    pub fn of_stream(output: W, header: &TraceHeader, options: ListingOptions) -> Self {
        let mut listing = Listing {
            output: BufferedOutput::new(output),
            options,
            names: Names::new(),
            code: Code::new(header),
        };
        let arguments: Vec<_> = header.arguments.iter().map(|word| lossy(word)).collect();
        let (program, order) = (lossy(&header.program), header.order.name());
        let arguments = arguments.join(" ");
        listing.remark(&format!("{program}: {arguments} (order {order})"));
        listing
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first error of the output, from whenever it happened.
    pub fn finish(self) -> Result<(), ExportError> {
        self.output.finish()
    }

    fn is_in_time(&self, time: u64) -> bool {
        (self.options.from..=self.options.to).contains(&time)
    }

    fn is_thread_wanted(&self, thread: ThreadId) -> bool {
        let wanted = &self.options.threads;
        wanted.is_empty() || wanted.contains(&thread)
    }

    fn is_event_wanted(&self, event: &Event, row: &EventRow<'_>) -> bool {
        match (event, row.address, row.size) {
            (Event::Instruction(InstructionEvent::CacheLine { address, .. }), ..) => {
                self.touches(address & !(LINE_BYTES - 1), LINE_BYTES)
            }
            (_, Some(address), Some(size)) => self.touches(address, size),
            _ => self.options.addresses.is_none(),
        }
    }

    fn touches(&self, address: u64, size: u64) -> bool {
        self.options.addresses.as_ref().is_none_or(|wanted| {
            address < wanted.end && address.saturating_add(size) > wanted.start
        })
    }

    fn remark(&mut self, remark: &str) {
        let text = self.output.text();
        text.extend_from_slice(b"# ");
        push_printable(text, remark);
        text.push(b'\n');
    }

    fn instruction(&mut self, thread: ThreadId, accesses: &[Access]) {
        let Some(first) = accesses.first() else {
            return;
        };
        let place = self.code.place(first.pc, first.time);
        for remark in self.code.take_remarks() {
            self.remark(&remark);
        }
        let text = self.output.text();
        let start = start_line(text, thread, first.time);
        push_hexadecimal(text, first.pc);
        text.extend_from_slice(b"  ");
        push_printable(text, &place.name);
        pad(text, start + NAME_END);
        push_printable(text, &place.disassembly);
        pad(text, start + DISASSEMBLY_END);
        for access in accesses {
            text.push(b' ');
            push_access(text, access);
        }
        if let Some(line) = &place.line {
            text.extend_from_slice(b"  ");
            push_printable(text, line);
        }
        text.push(b'\n');
        self.output.pass_on();
    }
}

/// The bytes of a cache line, which a flush or prefetch concerns as a whole.
const LINE_BYTES: u64 = 64;

/// Where in its line the name of an instruction's function ends, and where the disassembly does.
const NAME_END: usize = 62;
const DISASSEMBLY_END: usize = 98;

impl<W: Write> Sink for Listing<W> {
    fn settled(&mut self) {
        self.output.pass_on_all();
    }

    fn module(&mut self, module: &Module) {
        self.names.add_module(module);
        self.code.add_module(module);
    }

    fn function(&mut self, function: &TracedFunction) {
        self.names.add_function(function);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        if !self.is_thread_wanted(thread) {
            return;
        }
        for accesses in instructions(batch) {
            let mut all = accesses.iter();
            if all.any(|access| {
                self.is_in_time(access.time) && self.touches(access.address, access.size.into())
            }) {
                self.instruction(thread, accesses);
            }
        }
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.code.event(time, event);
        let row = EventRow::new(event, &self.names);
        if !self.is_event_wanted(event, &row)
            || !self.is_in_time(time)
            || !self.is_thread_wanted(thread)
        {
            return;
        }
        let text = self.output.text();
        start_line(text, thread, time);
        push_event(text, &row);
        text.push(b'\n');
        self.output.pass_on();
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        if !self.is_thread_wanted(thread) {
            return;
        }
        for (access, value) in accesses.iter().zip(values) {
            let is_wanted = !value.is_empty() && self.is_in_time(access.time);
            if !is_wanted || !self.touches(access.address, access.size.into()) {
                continue;
            }
            let text = self.output.text();
            start_line(text, thread, access.time);
            text.extend_from_slice(b"  value ");
            push_access(text, access);
            text.extend_from_slice(b" = ");
            push_bytes(text, value);
            text.push(b'\n');
            self.output.pass_on();
        }
    }
}

/// Starts a line with time and thread; returns where in the text it starts.
fn start_line(text: &mut Vec<u8>, thread: ThreadId, time: u64) -> usize {
    let start = text.len();
    push_decimal(text, time);
    pad(text, start + 12);
    push_decimal(text, thread.0);
    pad(text, start + 16);
    start
}

/// Fills the line with spaces up to a column, but at least one.
fn pad(text: &mut Vec<u8>, end: usize) {
    let length = end.max(text.len() + 1);
    text.resize(length, b' ');
}

/// `r8 0x7ffe1230`, with what is particular about it behind.
fn push_access(text: &mut Vec<u8>, access: &Access) {
    text.push(match access.kind {
        AccessKind::Read => b'r',
        AccessKind::Write => b'w',
    });
    push_decimal(text, access.size);
    text.push(b' ');
    push_hexadecimal(text, access.address);
    for (flag, word) in [
        (AccessFlags::ATOMIC, " atomic"),
        (AccessFlags::FAILED_CAS, " failed"),
        (AccessFlags::NON_TEMPORAL, " non-temporal"),
    ] {
        if access.flags.contains(flag) {
            text.extend_from_slice(word.as_bytes());
        }
    }
}

/// The kind of an event, and its fields as they are called in the tables.
fn push_event(text: &mut Vec<u8>, row: &EventRow<'_>) {
    text.extend_from_slice(row.kind.as_bytes());
    if let Some(name) = &row.name {
        text.push(b' ');
        push_printable(text, name);
    }
    if let Some(number) = row.number {
        text.extend_from_slice(b" number=");
        push_decimal(text, number);
    }
    for (label, value) in [(" address=", row.address), (" size=", row.size)] {
        if let Some(value) = value {
            text.extend_from_slice(label.as_bytes());
            push_hexadecimal(text, value);
        }
    }
    for argument in row.argument_values() {
        text.push(b' ');
        push_hexadecimal(text, *argument);
    }
}

/// Text from a trace or a file, which must neither break the line nor command the terminal.
fn push_printable(text: &mut Vec<u8>, any: &str) {
    let printable = |character: char| match character.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => character,
    };
    let mut bytes = [0; 4];
    for character in any.chars().map(printable) {
        text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
    }
}

#[cfg(test)]
mod tests;
