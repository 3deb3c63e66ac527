//! CSV (RFC 4180): one line for each access, value and event, with the same columns in each.
//! `docs/exports.md` describes the columns.

use std::io::Write;

use unspool_events::{Access, AccessFlags, AccessKind, Event, Function, Module, Sink, ThreadId};

use crate::buffered_output::{BufferedOutput, push_bytes, push_decimal, push_hexadecimal};
use crate::event_row::EventRow;
use crate::{ExportError, Names};

/// The first line.
const COLUMNS: &[u8] =
    b"time,thread,kind,pc,address,size,atomic,failed_cas,first,number,name,arguments\n";

/// Writes CSV.
#[derive(Debug)]
pub struct CsvExporter<W> {
    output: BufferedOutput<W>,
    names: Names,
}

impl<W: Write> CsvExporter<W> {
    /// Writes to `output`, in large pieces.
    pub fn new(output: W, names: Names) -> Self {
        let mut output = BufferedOutput::new(output);
        output.text().extend_from_slice(COLUMNS);
        CsvExporter { output, names }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first error of the output, from whenever it happened.
    pub fn finish(self) -> Result<(), ExportError> {
        self.output.finish()
    }
}

impl<W: Write> Sink for CsvExporter<W> {
    fn module(&mut self, module: &Module) {
        self.names.add_module(module);
    }

    fn function(&mut self, function: &Function) {
        self.names.add_function(function);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        for access in batch {
            let kind = match access.kind {
                AccessKind::Read => "read",
                AccessKind::Write => "write",
            };
            let text = self.output.text();
            push_access(text, thread, access, kind);
            text.extend_from_slice(b",,,\n");
            self.output.pass_on();
        }
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        let row = EventRow::new(event, &self.names);
        let text = self.output.text();
        push_decimal(text, time);
        text.push(b',');
        push_decimal(text, thread.0);
        text.push(b',');
        text.extend_from_slice(row.kind.as_bytes());
        // An event belongs to no instruction.
        text.extend_from_slice(b",,");
        if let Some(address) = row.address {
            push_hexadecimal(text, address);
        }
        text.push(b',');
        if let Some(size) = row.size {
            push_decimal(text, size);
        }
        text.extend_from_slice(b",,,,");
        if let Some(number) = row.number {
            push_decimal(text, number);
        }
        text.push(b',');
        if let Some(name) = &row.name {
            push_quoted(text, name);
        }
        text.push(b',');
        for (index, argument) in row.argument_values().iter().enumerate() {
            if index > 0 {
                text.push(b' ');
            }
            push_hexadecimal(text, *argument);
        }
        text.push(b'\n');
        self.output.pass_on();
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        for (access, value) in accesses
            .iter()
            .zip(values)
            .filter(|(_, value)| !value.is_empty())
        {
            let kind = match access.kind {
                AccessKind::Read => "read_value",
                AccessKind::Write => "write_value",
            };
            let text = self.output.text();
            push_access(text, thread, access, kind);
            text.extend_from_slice(b",,");
            push_bytes(text, value);
            text.extend_from_slice(b",\n");
            self.output.pass_on();
        }
    }
}

/// The columns from `time` to `first`.
fn push_access(text: &mut Vec<u8>, thread: ThreadId, access: &Access, kind: &str) {
    push_decimal(text, access.time);
    text.push(b',');
    push_decimal(text, thread.0);
    text.push(b',');
    text.extend_from_slice(kind.as_bytes());
    text.push(b',');
    push_hexadecimal(text, access.pc);
    text.push(b',');
    push_hexadecimal(text, access.address);
    text.push(b',');
    push_decimal(text, access.size);
    for flag in [
        AccessFlags::ATOMIC,
        AccessFlags::FAILED_CAS,
        AccessFlags::FIRST,
    ] {
        text.extend_from_slice(if access.flags.contains(flag) {
            b",1"
        } else {
            b",0"
        });
    }
}

/// A text field, in quotes so that nothing in it ends it.
fn push_quoted(text: &mut Vec<u8>, field: &str) {
    text.push(b'"');
    for byte in field.bytes() {
        if byte == b'"' {
            text.push(b'"');
        }
        text.push(byte);
    }
    text.push(b'"');
}
