//! CSV (RFC 4180): one line for each access, value and event, with the same columns in each.
//! `docs/exports.md` describes the columns.

use std::io::Write;

use unspool_events::{
    Access, AccessFlags, AccessKind, Event, Module, Sink, ThreadId, TracedFunction,
};

use crate::buffered_output::{BufferedOutput, push_bytes, push_decimal, push_hexadecimal};
use crate::event_row::EventRow;
use crate::row_text::{CountingText, Piece, RowText};
use crate::{ExportError, Names};

/// The first line.
const COLUMNS: &[u8] =
    b"time,thread,kind,pc,address,size,atomic,failed_cas,first,non_temporal,number,name,arguments\n";

/// Writes CSV.
#[derive(Debug)]
pub struct CsvExporter<W> {
    output: BufferedOutput<W>,
    names: Names,
    access_rows: AccessRows,
}

impl<W: Write> CsvExporter<W> {
    /// Writes to `output`, in large pieces.
    pub fn new(output: W, names: Names) -> Self {
        let mut output = BufferedOutput::new(output);
        output.text().extend_from_slice(COLUMNS);
        CsvExporter {
            output,
            names,
            access_rows: AccessRows::new(),
        }
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
        let starts = AccessRows::starts(thread);
        for access in batch {
            let row = self.access_rows.row(&starts, access);
            self.output.text().extend_from_slice(row);
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
        text.extend_from_slice(b",,,,,");
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

/// Makes the rows of accesses, which most rows are.
#[derive(Debug)]
struct AccessRows {
    row: RowText,
    time: CountingText,
    /// By flags: the columns from `atomic` on.
    ends: [Piece<16>; 16],
}

/// What stands between the time and the digits of `pc` in all rows of a thread: for reads, then
/// for writes.
type RowStarts = [Piece<24>; 2];

impl AccessRows {
    fn new() -> AccessRows {
        let end = |flags: usize| {
            let flags = AccessFlags(flags as u8);
            let digit = |flag| u8::from(flags.contains(flag));
            let (atomic, first) = (digit(AccessFlags::ATOMIC), digit(AccessFlags::FIRST));
            let failed = digit(AccessFlags::FAILED_CAS);
            let direct = digit(AccessFlags::NON_TEMPORAL);
            Piece::new(&format!(",{atomic},{failed},{first},{direct},,,\n"))
        };
        AccessRows {
            row: RowText::new(),
            time: CountingText::new(),
            ends: std::array::from_fn(end),
        }
    }

    fn starts(thread: ThreadId) -> RowStarts {
        ["read", "write"].map(|kind| Piece::new(&format!(",{},{kind},0x", thread.0)))
    }

    #[inline]
    fn row(&mut self, starts: &RowStarts, access: &Access) -> &[u8] {
        let row = &mut self.row;
        row.clear();
        row.put_piece(self.time.of(access.time));
        row.put_piece(&starts[usize::from(access.kind == AccessKind::Write)]);
        row.put_hexadecimal(access.pc);
        row.put(b",0x", 3);
        row.put_hexadecimal(access.address);
        row.put(b",", 1);
        row.put_decimal(access.size);
        row.put_piece(&self.ends[usize::from(access.flags.0 & 15)]);
        row.bytes()
    }
}

/// The columns from `time` to `non_temporal`.
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
        AccessFlags::NON_TEMPORAL,
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
