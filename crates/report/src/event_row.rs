//! Events as rows of one table: the columns that CSV and Parquet share.

use std::borrow::Cow;

use unspool_events::{Event, SyncOperation};

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
            Event::ThreadStart { os_thread, parent } => {
                let row = row.number(*os_thread);
                parent.map_or(row.clone(), |parent| row.arguments(&[parent.0.into()]))
            }
            Event::ThreadRegistered { number, name } => row.number(*number).name(name.as_str()),
            Event::ThreadPointer { address } => row.address(*address),
            Event::FunctionCall {
                function,
                stack_pointer,
                arguments,
            } => row
                .number(function.0)
                .name(names.function(*function))
                .address(*stack_pointer)
                .arguments(arguments),
            Event::FunctionReturn {
                function,
                stack_pointer,
                value,
            } => row
                .number(function.0)
                .name(names.function(*function))
                .address(*stack_pointer)
                .arguments(&[*value]),
            Event::ContextChange { signal } => row.number(*signal),
            Event::Sync { operation, object } => match operation {
                SyncOperation::ThreadCreate | SyncOperation::SystemCall => {
                    row.number(object.cast_signed())
                }
                _ => row.address(*object),
            }
            .name(sync_operation_name(*operation)),
            Event::SystemCallEntry { number, arguments } => {
                row.number(*number).arguments(arguments)
            }
            Event::SystemCallExit { number, result } => {
                row.number(*number).arguments(&[result.cast_unsigned()])
            }
            Event::SystemMemory {
                write,
                address,
                size,
            } => row
                .address(*address)
                .size(*size)
                .name(if *write { "write" } else { "read" }),
            Event::SharedMemory {
                address,
                size,
                device,
                inode,
                offset,
                own,
            } => row
                .address(*address)
                .size(*size)
                .name(if *own { "own" } else { "open" })
                .arguments(&[*device, *inode, *offset]),
            Event::CacheLine { pc, address, .. } => row.address(*address).arguments(&[*pc]),
            Event::Fence { pc, .. } => row.arguments(&[*pc]),
            Event::InstructionFetch { pc, size } => row.address(*pc).size(u64::from(*size)),
            Event::ModuleLoad { module } | Event::ModuleUnload { module } => {
                let row = row.number(module.0);
                match names.module(*module) {
                    Some(module) => row
                        .name(String::from_utf8_lossy(&module.path))
                        .address(module.base)
                        .size(module.size),
                    None => row,
                }
            }
            Event::Fork { child } => row.number(*child),
            Event::Dropped { words, reason } => {
                row.number(words.cast_signed()).name(reason.as_str())
            }
            Event::ThreadEnd
            | Event::RegionStart
            | Event::RegionEnd
            | Event::ThreadSync
            | Event::Exec => row,
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
        Event::ThreadStart { .. } => "thread_start",
        Event::ThreadRegistered { .. } => "thread_registered",
        Event::ThreadEnd => "thread_end",
        Event::ThreadPointer { .. } => "thread_pointer",
        Event::FunctionCall { .. } => "function_call",
        Event::FunctionReturn { .. } => "function_return",
        Event::RegionStart => "region_start",
        Event::RegionEnd => "region_end",
        Event::ContextChange { .. } => "context_change",
        Event::ThreadSync => "thread_sync",
        Event::Sync { .. } => "sync",
        Event::SystemCallEntry { .. } => "system_call_entry",
        Event::SystemCallExit { .. } => "system_call_exit",
        Event::SystemMemory { .. } => "system_memory",
        Event::SharedMemory { .. } => "shared_memory",
        Event::CacheLine { operation, .. } => operation.name(),
        Event::Fence { fence, .. } => fence.name(),
        Event::InstructionFetch { .. } => "instruction",
        Event::ModuleLoad { .. } => "module_load",
        Event::ModuleUnload { .. } => "module_unload",
        Event::Fork { .. } => "fork",
        Event::Exec => "exec",
        Event::Dropped { .. } => "dropped",
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
