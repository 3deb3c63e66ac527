//! Events as rows of one table: the columns that CSV and Parquet share.

use std::borrow::Cow;

use unspool_events::{
    Event, InstructionEvent, Loss, Mapping, MemoryEffect, ProcessEvent, Span, SyncOperation,
    Synchronisation, SystemCall, ThreadEvent,
};

use crate::Names;

/// An event, laid out in columns. `docs/exports.md` says which event uses which.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct EventRow<'a> {
    /// What happened.
    pub(crate) kind: &'static str,
    /// An id or number: of a thread, function, module, signal, system call or process.
    pub(crate) number: Option<i64>,
    /// An address.
    pub(crate) address: Option<u64>,
    /// Bytes from the address on.
    pub(crate) size: Option<u64>,
    /// A name, path or reason.
    pub(crate) name: Option<Cow<'a, str>>,
    /// Further values, as many as `argument_count`.
    pub(crate) arguments: [u64; 6],
    /// How many of `arguments` there are.
    pub(crate) argument_count: usize,
}

impl<'a> EventRow<'a> {
    /// Lays an event out.
    pub(crate) fn new(event: &'a Event, names: &'a Names) -> EventRow<'a> {
        let row = EventRow {
            kind: kind_name(event),
            ..EventRow::default()
        };
        match event {
            Event::Thread(ThreadEvent::Start { os_thread, parent }) => {
                let row = row.number(*os_thread);
                parent.map_or(row.clone(), |parent| row.arguments(&[parent.0.into()]))
            }
            Event::Thread(ThreadEvent::Registered { number, name }) => {
                row.number(*number).name(name.as_str())
            }
            Event::Thread(ThreadEvent::Pointer { address, .. }) => row.address(*address),
            Event::Span(Span::FunctionCall {
                function,
                stack_pointer,
                arguments,
            }) => row
                .number(function.0)
                .name(names.function(*function))
                .address(*stack_pointer)
                .arguments(arguments),
            Event::Span(Span::FunctionReturn {
                function,
                stack_pointer,
                value,
                stored,
            }) => {
                let results: Vec<u64> = std::iter::once(*value).chain(*stored).collect();
                row.number(function.0)
                    .name(names.function(*function))
                    .address(*stack_pointer)
                    .arguments(&results)
            }
            Event::Span(Span::FurtherArguments { arguments }) => row.arguments(arguments),
            Event::Span(Span::Dependence {
                dependence,
                address,
            }) => row.name(dependence.name()).address(*address),
            Event::Thread(ThreadEvent::HandlerCalled { signal }) => row.number(*signal),
            Event::Synchronisation(Synchronisation { operation, object }) => match operation {
                SyncOperation::ThreadCreate | SyncOperation::SystemCall => {
                    row.number(object.cast_signed())
                }
                _ => row.address(*object),
            }
            .name(sync_operation_name(*operation)),
            Event::SystemCall(SystemCall::Entry { number, arguments }) => {
                row.number(*number).arguments(arguments)
            }
            Event::SystemCall(SystemCall::Exit { number, result }) => {
                row.number(*number).arguments(&[result.cast_unsigned()])
            }
            Event::MemoryEffect(MemoryEffect {
                write,
                address,
                size,
            }) => row
                .address(*address)
                .size(*size)
                .name(if *write { "write" } else { "read" }),
            Event::Mapping(Mapping::Shared {
                address,
                size,
                device,
                inode,
                offset,
                own,
            }) => row
                .address(*address)
                .size(*size)
                .name(if *own { "own" } else { "open" })
                .arguments(&[*device, *inode, *offset]),
            Event::Instruction(InstructionEvent::CacheLine { pc, address, .. }) => {
                row.address(*address).arguments(&[*pc])
            }
            Event::Instruction(InstructionEvent::Fence { pc, .. }) => row.arguments(&[*pc]),
            Event::Instruction(InstructionEvent::Fetch { pc, size }) => {
                row.address(*pc).size(u64::from(*size))
            }
            Event::Mapping(Mapping::ModuleLoad { module })
            | Event::Mapping(Mapping::ModuleUnload { module }) => {
                let row = row.number(module.0);
                match names.module(*module) {
                    Some(module) => row
                        .name(String::from_utf8_lossy(&module.path))
                        .address(module.base)
                        .size(module.size),
                    None => row,
                }
            }
            Event::Process(ProcessEvent::Fork { child }) => row.number(*child),
            Event::Loss(Loss { words, reason }) => {
                row.number(words.cast_signed()).name(reason.as_str())
            }
            Event::Thread(ThreadEvent::End | ThreadEvent::ClockMoved)
            | Event::Span(Span::RegionStart | Span::RegionEnd)
            | Event::Process(ProcessEvent::Exec) => row,
        }
    }

    /// The arguments that there are.
    pub(crate) fn argument_values(&self) -> &[u64] {
        &self.arguments[..self.argument_count]
    }

    fn number(mut self, number: impl Into<i64>) -> Self {
        self.number = Some(number.into());
        self
    }

    fn address(mut self, address: u64) -> Self {
        self.address = Some(address);
        self
    }

    fn size(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    fn name(mut self, name: impl Into<Cow<'a, str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    fn arguments(mut self, arguments: &[u64]) -> Self {
        self.arguments[..arguments.len()].copy_from_slice(arguments);
        self.argument_count = arguments.len();
        self
    }
}

/// The name of an event's kind in every export and report.
pub(crate) fn kind_name(event: &Event) -> &'static str {
    match event {
        Event::Thread(ThreadEvent::Start { .. }) => "thread_start",
        Event::Thread(ThreadEvent::Registered { .. }) => "thread_registered",
        Event::Thread(ThreadEvent::End) => "thread_end",
        Event::Thread(ThreadEvent::Pointer { .. }) => "thread_pointer",
        Event::Span(Span::FunctionCall { .. }) => "function_call",
        Event::Span(Span::FunctionReturn { .. }) => "function_return",
        Event::Span(Span::RegionStart) => "region_start",
        Event::Span(Span::RegionEnd) => "region_end",
        Event::Span(Span::FurtherArguments { .. }) => "further_arguments",
        Event::Span(Span::Dependence { .. }) => "dependence",
        Event::Thread(ThreadEvent::HandlerCalled { .. }) => "context_change",
        Event::Thread(ThreadEvent::ClockMoved) => "thread_sync",
        Event::Synchronisation(Synchronisation { .. }) => "sync",
        Event::SystemCall(SystemCall::Entry { .. }) => "system_call_entry",
        Event::SystemCall(SystemCall::Exit { .. }) => "system_call_exit",
        Event::MemoryEffect(MemoryEffect { .. }) => "system_memory",
        Event::Mapping(Mapping::Shared { .. }) => "shared_memory",
        Event::Instruction(InstructionEvent::CacheLine { operation, .. }) => operation.name(),
        Event::Instruction(InstructionEvent::Fence { fence, .. }) => fence.name(),
        Event::Instruction(InstructionEvent::Fetch { .. }) => "instruction",
        Event::Mapping(Mapping::ModuleLoad { .. }) => "module_load",
        Event::Mapping(Mapping::ModuleUnload { .. }) => "module_unload",
        Event::Process(ProcessEvent::Fork { .. }) => "fork",
        Event::Process(ProcessEvent::Exec) => "exec",
        Event::Loss(Loss { .. }) => "dropped",
    }
}

/// The name of a way to synchronise.
pub(crate) fn sync_operation_name(operation: SyncOperation) -> &'static str {
    match operation {
        SyncOperation::ThreadCreate => "thread_create",
        SyncOperation::FutexWait => "futex_wait",
        SyncOperation::FutexWake => "futex_wake",
        SyncOperation::ThreadExit => "thread_exit",
        SyncOperation::SystemCall => "system_call",
    }
}
