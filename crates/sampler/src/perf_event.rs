//! What the kernel is asked for: `perf_event_open(2)`.
//!
//! Source: the manual page, and `include/uapi/linux/perf_event.h`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use unspool_profile_record::Rate;

use crate::event_choice::EventCode;

/// What is counted, and sampled whenever it has come to a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A thread's CPU time in nanoseconds, by the kernel's clock.
    TaskClock,
    /// Cycles of the processor, by its counter.
    Cycles,
    /// That a thread leaves its processor. The kernel is where it does so: samples of it must include the
    /// kernel.
    ContextSwitches,
    /// Another one, by what the kernel calls it.
    Of(EventCode),
}

impl Event {
    /// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_TASK_CLOCK`; `PERF_TYPE_HARDWARE` and
    /// `PERF_COUNT_HW_CPU_CYCLES`; `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_CONTEXT_SWITCHES`.
    fn kind_and_number(self) -> (u32, u64) {
        match self {
            Event::TaskClock => (1, 1),
            Event::Cycles => (0, 0),
            Event::ContextSwitches => (1, 3),
            Event::Of(code) => (code.kind, code.number),
        }
    }

    /// What the kernel tells beside the samples: of processes, by the event that every run has, or when
    /// threads leave and enter processors.
    fn told_beside(self) -> u64 {
        match self {
            Event::TaskClock | Event::Cycles => MMAP | COMM | TASK | MMAP2 | COMM_EXEC,
            Event::ContextSwitches => CONTEXT_SWITCH,
            Event::Of(_) => 0,
        }
    }
}

/// Whose an event is, and when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// The calling thread's alone, at once.
    Now,
    /// The calling thread's: in each process that it starts, when that executes a program; and from
    /// there on in all of its threads and children.
    AtExecution,
    /// Of the thread of this number, at once; and in all that it starts from then on.
    InThread(u32),
}

/// What a sample has, in this order: instruction pointer, thread, time, period, registers, stack.
const SAMPLE_FIELDS: u64 = 1 | 1 << 1 | 1 << 2 | PERIOD | 1 << 12 | 1 << 13;
const PERIOD: u64 = 1 << 8;
/// Before all that of a sample, and behind all of other records, the identifier of the event.
const IDENTIFIER: u64 = 1 << 16;
/// rax to rip, and r8 to r15, by the kernel's numbers for registers.
pub(crate) const REGISTERS: u64 = 0xff_01ff;

/// Bits of the flags.
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const IS_FREQUENCY: u64 = 1 << 10;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const TASK: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCK: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;

/// What is read from an event has, behind its count, how many records found no room
/// (`PERF_FORMAT_LOST`, since Linux 6.0).
const WITH_LOST: u64 = 1 << 4;
/// Before that, how long threads ran in which it was to be counted, and how long it was
/// (`PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`).
const WITH_TIMES: u64 = 1 | 1 << 1;

/// `PERF_EVENT_IOC_SET_OUTPUT` and `PERF_EVENT_IOC_ID`.
const SET_OUTPUT: libc::Ioctl = 0x2405;
const GET_ID: libc::Ioctl = 0x8008_2407_u32 as libc::Ioctl;

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
    /// How often, in the event's unit.
    pub(crate) rate: Rate,
    pub(crate) stack_bytes: u32,
    pub(crate) includes_kernel: bool,
    /// Whether records say of which event they are.
    pub(crate) is_identified: bool,
    /// Whether samples have their period. The kernel takes one for each of its own events then, whatever
    /// period it was asked for.
    pub(crate) has_period: bool,
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
    /// It is not allowed to see when threads wait, which is something in the kernel.
    #[error(
        "the kernel does not let this user see where threads wait (kernel.perf_event_paranoid is {paranoid})"
    )]
    WaitsForbidden {
        /// The setting's value.
        paranoid: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is not allowed to see something that happens in the kernel.
    #[error(
        "the kernel does not let this user sample {name}, which happens in it (kernel.perf_event_paranoid \
         is {paranoid})"
    )]
    EventForbidden {
        /// What that is.
        name: String,
        /// The setting's value.
        paranoid: String,
    },
    /// Neither the kernel nor the processor counts that here.
    #[error("{name} cannot be sampled on this machine")]
    NoEvent {
        /// What that is.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It cannot do it.
    #[error("the kernel cannot take samples (perf_event_open)")]
    Impossible(#[source] io::Error),
    /// There is no memory for what it says.
    #[error(
        "the kernel gives this user no memory for samples (kernel.perf_event_mlock_kb is {limit})"
    )]
    NoMemory {
        /// The setting's value.
        limit: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The process to be sampled is another user's, or has other rights.
    #[error("the kernel does not let this user sample process {pid}")]
    Foreign {
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is no process to be sampled.
    #[error("there is no process {0}")]
    NoProcess(u32),
}

impl SetupError {
    fn of(source: io::Error) -> SetupError {
        match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => SetupError::Forbidden {
                paranoid: setting("perf_event_paranoid"),
                source,
            },
            _ => SetupError::Impossible(source),
        }
    }

    /// The same of an event of the kernel's.
    pub(crate) fn of_waits(self) -> SetupError {
        match self {
            SetupError::Forbidden { paranoid, source } => {
                SetupError::WaitsForbidden { paranoid, source }
            }
            other => other,
        }
    }

    /// The same of an event of this name.
    pub(crate) fn of_event(self, name: &str) -> SetupError {
        match self {
            SetupError::Impossible(source) => SetupError::NoEvent {
                name: name.to_owned(),
                source,
            },
            other => other,
        }
    }

    pub(crate) fn event_forbidden(name: &str) -> SetupError {
        SetupError::EventForbidden {
            name: name.to_owned(),
            paranoid: setting("perf_event_paranoid"),
        }
    }

    pub(crate) fn no_memory(source: io::Error) -> SetupError {
        SetupError::NoMemory {
            limit: setting("perf_event_mlock_kb"),
            source,
        }
    }

    /// What the kernel said.
    pub(crate) fn number(&self) -> Option<i32> {
        match self {
            SetupError::Forbidden { source, .. }
            | SetupError::WaitsForbidden { source, .. }
            | SetupError::NoMemory { source, .. }
            | SetupError::Foreign { source, .. }
            | SetupError::NoEvent { source, .. }
            | SetupError::Impossible(source) => source.raw_os_error(),
            SetupError::NoProcess(_) => Some(libc::ESRCH),
            SetupError::EventForbidden { .. } => Some(libc::EACCES),
        }
    }
}

/// The value of a setting of the kernel's (`/proc/sys/kernel`).
fn setting(name: &str) -> String {
    let value = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    value.map_or("unknown".to_owned(), |text| text.trim().to_owned())
}

/// An event on one processor; on all where that is -1, which no event can be that others inherit.
pub(crate) fn open(request: &Request, processor: i32) -> Result<OwnedFd, SetupError> {
    let kernel = match request.includes_kernel {
        true => 0,
        false => EXCLUDE_KERNEL,
    };
    let (thread, begins) = match request.begins {
        Begins::Now => (0, 0),
        Begins::AtExecution => (0, DISABLED | INHERIT | ENABLE_ON_EXEC),
        Begins::InThread(tid) => (tid, INHERIT),
    };
    let (kind, config) = request.event.kind_and_number();
    let (rate, is_frequency) = match request.rate {
        Rate::Period(period) => (period, 0),
        Rate::Frequency(frequency) => (frequency, IS_FREQUENCY),
    };
    let identifier = match request.is_identified {
        true => IDENTIFIER,
        false => 0,
    };
    let without = match request.has_period {
        true => 0,
        false => PERIOD,
    };
    let mut attributes = Attributes {
        kind,
        size: u32::try_from(size_of::<Attributes>()).expect("a small structure"),
        config,
        sample_period: rate,
        sample_fields: (SAMPLE_FIELDS | identifier) & !without,
        read_format: WITH_TIMES | WITH_LOST,
        flags: EXCLUDE_HYPERVISOR
            | WATERMARK
            | SAMPLE_ID_ALL
            | USE_CLOCK
            | request.event.told_beside()
            | begins
            | is_frequency
            | kernel,
        wakeup_watermark: request.wakeup_bytes,
        user_registers: REGISTERS,
        user_stack_bytes: request.stack_bytes,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    let mut opened = open_with(&attributes, thread, processor);
    if matches!(&opened, Err(error) if error.raw_os_error() == Some(libc::EINVAL)) {
        attributes.read_format = WITH_TIMES;
        opened = open_with(&attributes, thread, processor);
    }
    opened.map_err(SetupError::of)
}

fn open_with(attributes: &Attributes, thread: u32, processor: i32) -> io::Result<OwnedFd> {
    // SAFETY: the attributes have the size that they say; the other arguments are numbers.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            thread,
            processor,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just given it, to nobody else.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the kernel has counted of an event and of those that have inherited it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) events: u64,
    pub(crate) enabled_ns: u64,
    pub(crate) running_ns: u64,
    /// How many records found no room so far; 0 where the kernel does not count that. In the ring it tells it
    /// before the next record that finds room.
    pub(crate) lost: u64,
}

/// Reads what was counted so far.
pub(crate) fn count(event: &OwnedFd) -> Count {
    let mut words = [0_u64; 4];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let read = unsafe {
        libc::read(
            event.as_raw_fd(),
            words.as_mut_ptr().cast(),
            size_of_val(&words),
        )
    };
    match read {
        ..0 => Count::default(),
        // What was not read is 0.
        _ => Count {
            events: words[0],
            enabled_ns: words[1],
            running_ns: words[2],
            lost: words[3],
        },
    }
}

/// Has an event write to the ring of another one on the same processor.
pub(crate) fn set_output(event: &OwnedFd, output: &impl AsRawFd) -> Result<(), SetupError> {
    // SAFETY: both are events of this process.
    match unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, output.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(SetupError::Impossible(io::Error::last_os_error())),
    }
}

/// By what records name an event and those that have inherited it.
pub(crate) fn identifier(event: &OwnedFd) -> Result<u64, SetupError> {
    let mut identifier = 0_u64;
    // SAFETY: the kernel writes one number.
    match unsafe { libc::ioctl(event.as_raw_fd(), GET_ID, &raw mut identifier) } {
        0 => Ok(identifier),
        _ => Err(SetupError::Impossible(io::Error::last_os_error())),
    }
}
