//! What the kernel is asked for: `perf_event_open(2)`.
//!
//! Source: the manual page, and `include/uapi/linux/perf_event.h`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// What is counted, and sampled whenever it has come to a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A thread's CPU time in nanoseconds, by the kernel's clock.
    TaskClock,
    /// Cycles of the processor, by its counter.
    Cycles,
}

impl Event {
    /// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_TASK_CLOCK`; `PERF_TYPE_HARDWARE` and
    /// `PERF_COUNT_HW_CPU_CYCLES`.
    fn kind_and_number(self) -> (u32, u64) {
        match self {
            Event::TaskClock => (1, 1),
            Event::Cycles => (0, 0),
        }
    }
}

/// When an event of the calling thread begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// At once, for this thread alone.
    Now,
    /// In each process that it starts, when that executes a program; and from there on in all of
    /// its threads and children.
    AtExecution,
}

/// What a sample has, in this order: instruction pointer, thread, time, period, registers, stack.
const SAMPLE_FIELDS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 12 | 1 << 13;
/// rax to rip, and r8 to r15, by the kernel's numbers for registers.
pub(crate) const REGISTERS: u64 = 0xff_01ff;

/// Bits of the flags.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCK: u64 = 1 << 25;

/// The descriptor is not the program's (`PERF_FLAG_FD_CLOEXEC`).
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// `struct perf_event_attr`, as far as version 5 of it goes (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_fields: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_kind: u32,
    config1: u64,
    config2: u64,
    branch_sample_kind: u64,
    user_registers: u64,
    user_stack_bytes: u32,
    clock: i32,
    interrupt_registers: u64,
    aux_watermark: u32,
    max_stack: u16,
    reserved: u16,
}

/// What is sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) event: Event,
    pub(crate) begins: Begins,
    /// In the event's unit.
    pub(crate) period: u64,
    pub(crate) stack_bytes: u32,
    pub(crate) includes_kernel: bool,
    /// So many bytes wake the reader.
    pub(crate) wakeup_bytes: u32,
}

/// The kernel does not take samples.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// It is not allowed here.
    #[error(
        "the kernel does not let this user take samples (kernel.perf_event_paranoid is {paranoid})"
    )]
    Forbidden {
        /// The setting's value.
        paranoid: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It cannot do it.
    #[error("the kernel cannot take samples (perf_event_open)")]
    Impossible(#[source] io::Error),
    /// There is no memory for what it says.
    #[error("cannot map memory for samples")]
    NoMemory(#[source] io::Error),
}

impl SetupError {
    fn of(source: io::Error) -> SetupError {
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => {
                let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
                SetupError::Forbidden {
                    paranoid: paranoid.map_or("unknown".to_owned(), |text| text.trim().to_owned()),
                    source,
                }
            }
            _ => SetupError::Impossible(source),
        }
    }
}

/// An event of the calling thread, on one processor; on all where that is -1, which no event can be
/// that others inherit.
pub(crate) fn open(request: &Request, processor: i32) -> Result<OwnedFd, SetupError> {
    let kernel = match request.includes_kernel {
        true => 0,
        false => EXCLUDE_KERNEL,
    };
    let begins = match request.begins {
        Begins::Now => 0,
        Begins::AtExecution => DISABLED | INHERIT | ENABLE_ON_EXEC,
    };
    let (kind, config) = request.event.kind_and_number();
    let attributes = Attributes {
        kind,
        size: u32::try_from(size_of::<Attributes>()).expect("a small structure"),
        config,
        sample_period: request.period,
        sample_fields: SAMPLE_FIELDS,
        flags: EXCLUDE_HYPERVISOR
            | MMAP
            | COMM
            | TASK
            | WATERMARK
            | SAMPLE_ID_ALL
            | MMAP2
            | COMM_EXEC
            | USE_CLOCK
            | begins
            | kernel,
        wakeup_watermark: request.wakeup_bytes,
        user_registers: REGISTERS,
        user_stack_bytes: request.stack_bytes,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    // SAFETY: the attributes have the size that they say; the other arguments are numbers.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            0,
            processor,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just given it, to nobody else.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(SetupError::of(io::Error::last_os_error())),
    }
}
