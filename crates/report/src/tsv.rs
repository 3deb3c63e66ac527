//! The text format of atomic-memory-trace: one event or accessing instruction in each line,
//! tab-separated, numbers in decimal.
//!
//! Source: the README of <https://github.com/stevenpelley/atomic-memory-trace>, section
//! "Output Format". Its `m` lines have room for two reads of one size and one write; an
//! instruction with more takes several lines, one after the other.

use std::io::Write;

use rustc_hash::FxHashMap;
use unspool_events::{
    Access, AccessFlags, AccessKind, Event, InstructionEvent, Module, Sink, Span, ThreadEvent,
    ThreadId, TraceHeader, TracedFunction,
};

use crate::buffered_output::{BufferedOutput, push_decimal};
use crate::instructions::instructions;
use crate::{ExportError, Names};

/// What the lines depend on besides the trace's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TsvOptions {
    /// Lines start with their time.
    pub times: bool,
    /// `thread_sync` lines are written.
    pub thread_syncs: bool,
    /// Only registered threads were recorded: threads have the numbers that the program
    /// gave them, or −1, and `tr` stands where a thread registered. Otherwise threads have
    /// the trace's numbers, and `tr` stands where a thread started.
    pub registered_only: bool,
    /// Failed compare-and-swaps are written as reads and writes, rather than as reads.
    pub failed_cas: bool,
}

impl TsvOptions {
    /// With times and `thread_sync` lines, and as the trace was recorded otherwise.
    #[must_use]
    pub fn of_trace(header: &TraceHeader) -> TsvOptions {
        let on = |name: &str| {
            header
                .options
                .iter()
                .any(|(key, value)| key == name && value == "true")
        };
        TsvOptions {
            times: true,
            thread_syncs: true,
            registered_only: on("registered-only"),
            failed_cas: on("failed-cas"),
        }
    }
}

/// Writes the text format.
#[derive(Debug)]
pub struct TsvExporter<W> {
    output: BufferedOutput<W>,
    names: Names,
    options: TsvOptions,
    /// The numbers that the program gave its threads.
    registered: FxHashMap<ThreadId, i64>,
    left_out: LeftOut,
}

/// What was in the trace and has no words in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Flushes and prefetches.
    pub line_operations: u64,
    /// Fences.
    pub fences: u64,
    /// Accesses of which it is not said that their data is to bypass the caches.
    pub non_temporal: u64,
}

impl<W: Write> TsvExporter<W> {
    /// Writes to `output`, in large pieces.
    pub fn new(output: W, names: Names, options: TsvOptions) -> Self {
        TsvExporter {
            output: BufferedOutput::new(output),
            names,
            options,
            registered: FxHashMap::default(),
            left_out: LeftOut::default(),
        }
    }

    /// Writes what is left. Returns what could not be said.
    ///
    /// # Errors
    /// The first error of the output, from whenever it happened.
    pub fn finish(self) -> Result<LeftOut, ExportError> {
        self.output.finish().map(|()| self.left_out)
    }

    /// The thread as the lines name it.
    fn thread_number(&self, thread: ThreadId) -> i64 {
        if self.options.registered_only {
            self.registered.get(&thread).copied().unwrap_or(-1)
        } else {
            i64::from(thread.0)
        }
    }

    /// Starts a line: time, thread, kind.
    fn start_line(&mut self, thread: ThreadId, time: u64, kind: &str) {
        let number = self.thread_number(thread);
        let times = self.options.times;
        let text = self.output.text();
        if times {
            push_decimal(text, time);
            text.push(b'\t');
        }
        push_decimal(text, number);
        text.push(b'\t');
        text.extend_from_slice(kind.as_bytes());
    }

    /// Adds numbers and ends the line.
    fn end_line(&mut self, numbers: &[u64]) {
        let text = self.output.text();
        for number in numbers {
            text.push(b'\t');
            push_decimal(text, *number);
        }
        text.push(b'\n');
        self.output.pass_on();
    }

    fn whole_line(&mut self, thread: ThreadId, time: u64, kind: &str) {
        self.start_line(thread, time, kind);
        self.end_line(&[]);
    }

    /// Adds a name as a column: a tab or newline in it would break the line.
    fn push_name(text: &mut Vec<u8>, name: &str) {
        text.push(b'\t');
        text.extend(
            name.bytes()
                .map(|byte| if byte.is_ascii_control() { b' ' } else { byte }),
        );
    }
}

impl<W: Write> Sink for TsvExporter<W> {
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
        // Almost every line of a trace starts with the same thread and kind.
        let mut start = Vec::with_capacity(32);
        push_decimal(&mut start, self.thread_number(thread));
        start.extend_from_slice(b"\tm");
        let options = self.options;
        let non_temporal = |access: &&Access| access.flags.contains(AccessFlags::NON_TEMPORAL);
        self.left_out.non_temporal += batch.iter().filter(non_temporal).count() as u64;
        for accesses in instructions(batch) {
            push_instruction(self.output.text(), &start, options, accesses);
            self.output.pass_on();
        }
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        let registered_only = self.options.registered_only;
        match event {
            Event::Thread(ThreadEvent::Start { .. }) if !registered_only => {
                self.whole_line(thread, time, "tr")
            }
            Event::Thread(ThreadEvent::Registered { number, .. }) if registered_only => {
                self.registered.insert(thread, *number);
                self.whole_line(thread, time, "tr");
            }
            Event::Thread(ThreadEvent::End)
                if !registered_only || self.registered.contains_key(&thread) =>
            {
                self.whole_line(thread, time, "tf");
            }
            Event::Span(Span::FunctionCall {
                function,
                stack_pointer,
                arguments: [first, second, third],
            }) => {
                self.start_line(thread, time, "fc");
                Self::push_name(self.output.text(), &self.names.function(*function));
                self.end_line(&[*stack_pointer, *first, *second, *third]);
            }
            Event::Span(Span::FunctionReturn {
                function,
                stack_pointer,
                value,
                ..
            }) => {
                self.start_line(thread, time, "fr");
                Self::push_name(self.output.text(), &self.names.function(*function));
                self.end_line(&[*stack_pointer, *value]);
            }
            Event::Span(Span::RegionStart) => self.whole_line(thread, time, "start_roi"),
            Event::Span(Span::RegionEnd) => self.whole_line(thread, time, "end_roi"),
            Event::Thread(ThreadEvent::HandlerCalled { .. }) => {
                self.whole_line(thread, time, "ctxt_change")
            }
            Event::Thread(ThreadEvent::ClockMoved) if self.options.thread_syncs => {
                self.whole_line(thread, time, "thread_sync");
            }
            Event::Instruction(InstructionEvent::CacheLine { .. }) => {
                self.left_out.line_operations += 1
            }
            Event::Instruction(InstructionEvent::Fence { .. }) => self.left_out.fences += 1,
            // The format has no words for the others; the other exporters have.
            _ => {}
        }
    }
}

/// The `m` lines of one instruction.
fn push_instruction(text: &mut Vec<u8>, start: &[u8], options: TsvOptions, accesses: &[Access]) {
    let not_written = if options.failed_cas {
        AccessFlags::default()
    } else {
        AccessFlags::FAILED_CAS
    };
    let mut reads = accesses
        .iter()
        .filter(|access| access.kind == AccessKind::Read)
        .peekable();
    let mut writes = accesses
        .iter()
        .filter(|access| access.kind == AccessKind::Write)
        .filter(|access| not_written.0 == 0 || !access.flags.contains(not_written));
    loop {
        let read = reads.next();
        let second = read.and_then(|first| reads.next_if(|second| second.size == first.size));
        let write = writes.next();
        let Some(any) = read.or(write) else { break };
        if options.times {
            push_decimal(text, any.time);
            text.push(b'\t');
        }
        text.extend_from_slice(start);
        if let Some(read) = read {
            text.extend_from_slice(b"\tr\t");
            push_decimal(text, read.address);
            text.push(b'\t');
            push_decimal(text, read.size);
        }
        if let Some(second) = second {
            text.extend_from_slice(b"\tr2\t");
            push_decimal(text, second.address);
        }
        if let Some(write) = write {
            text.extend_from_slice(b"\tw\t");
            push_decimal(text, write.address);
            text.push(b'\t');
            push_decimal(text, write.size);
        }
        text.push(b'\n');
    }
}
