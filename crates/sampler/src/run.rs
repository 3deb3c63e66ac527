//! A run from start to end.

use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use unspool_container::TraceHeader;
use unspool_container::bytes::Malformed;
use unspool_profile_record::{Ending, Record, Settings, Writer};

use crate::file_size_limit;
use crate::kernel_record::KernelRecord;
use crate::observer::Observer;
use crate::perf_event::{Begins, Event, Request, SetupError, open};
use crate::ring::Ring;

/// Bytes of each processor's ring, from what is asked for down to what any user may have.
const LARGEST_RING: usize = 4 << 20;
const SMALLEST_RING: usize = 512 << 10;

/// How long is waited for samples before it is looked whether the program has ended, and before
/// what was read from one ring is held against what comes later from others.
const ROUND: Duration = Duration::from_millis(50);
/// How often a reader sees what is new.
const FLUSHED_EVERY: Duration = Duration::from_millis(500);

/// How samples are taken.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Samples in a second of a thread's CPU time.
    pub frequency_hz: u32,
    /// How much of a stack is looked at; a multiple of 8, less than 65,536.
    pub stack_bytes: u32,
}

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The program's ending.
    pub status: ExitStatus,
}

/// Why there is no run, or none to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No samples can be taken.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The program cannot be started.
    #[error("cannot start the program")]
    Start(#[source] io::Error),
    /// The recording cannot be written.
    #[error("cannot write the recording")]
    Write(#[source] io::Error),
    /// The end of the program cannot be waited for.
    #[error("cannot wait for the program")]
    Wait(#[source] io::Error),
}

/// Runs a command and writes its recording, with the number of the process in its header. `started`
/// is told that number.
///
/// This process may write files of any size from now on, as far as its user is allowed to; the
/// command is under the limit that held before.
///
/// # Errors
/// If samples cannot be taken, the program cannot be started, or the recording not be written.
/// When writing fails, the program goes on, and is waited for.
pub fn run(
    command: &mut Command,
    sampling: Sampling,
    header: TraceHeader,
    output: impl Write,
    started: impl FnOnce(u32),
) -> Result<Outcome, RunError> {
    let (rings, request) = rings(sampling)?;
    file_size_limit::lift(command);
    let start = Instant::now();
    let mut child = command.spawn().map_err(RunError::Start)?;
    started(child.id());
    let header = TraceHeader {
        process: child.id(),
        ..header
    };
    match record(&mut child, start, rings, request, &header, output) {
        Err(error @ RunError::Write(_)) => {
            // Nobody reads any more what the program's end could have told.
            child.wait().map_err(RunError::Wait)?;
            Err(error)
        }
        ended => ended,
    }
}

/// Records a child from its start to its end.
fn record(
    child: &mut Child,
    start: Instant,
    rings: Vec<Ring>,
    request: Request,
    header: &TraceHeader,
    output: impl Write,
) -> Result<Outcome, RunError> {
    let writer = Writer::new(output, header).map_err(RunError::Write)?;
    let mut reading = Reading {
        rings,
        observer: Observer::new(writer),
        waiting: Vec::new(),
        latest_ns: 0,
        damaged: 0,
    };
    let settings = Record::Settings(Settings {
        period_ns: request.period,
        stack_bytes: request.stack_bytes.into(),
        includes_kernel: request.includes_kernel,
    });
    reading.observer.write(&settings).map_err(RunError::Write)?;
    let (status, used) = reading.until_end(child)?;
    let ending = Record::Ending(Ending {
        elapsed_ns: nanoseconds(start.elapsed()),
        ..used
    });
    reading.observer.write(&ending).map_err(RunError::Write)?;
    reading.observer.flush().map_err(RunError::Write)?;
    Ok(Outcome { status })
}

/// A ring for each processor, with time in the kernel where that is allowed.
fn rings(sampling: Sampling) -> Result<(Vec<Ring>, Request), SetupError> {
    let mut request = Request {
        event: Event::TaskClock,
        begins: Begins::AtExecution,
        period: 1_000_000_000 / u64::from(sampling.frequency_hz.max(1)),
        stack_bytes: sampling.stack_bytes,
        includes_kernel: true,
        wakeup_bytes: 0,
    };
    if let Err(SetupError::Forbidden { .. }) = open(&request, -1) {
        request.includes_kernel = false;
    }
    let mut data_bytes = LARGEST_RING;
    loop {
        request.wakeup_bytes = u32::try_from(data_bytes / 4).expect("a small ring");
        match rings_of(&request, data_bytes) {
            Err(SetupError::NoMemory(_)) if data_bytes > SMALLEST_RING => data_bytes /= 2,
            made => return made.map(|rings| (rings, request)),
        }
    }
}

fn rings_of(request: &Request, data_bytes: usize) -> Result<Vec<Ring>, SetupError> {
    let mut rings = Vec::new();
    // SAFETY: asks for a number.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    for processor in 0..i32::try_from(processors).unwrap_or(1).max(1) {
        match open(request, processor) {
            Ok(event) => rings.push(Ring::new(event, data_bytes)?),
            // A processor that is not in use.
            Err(SetupError::Impossible(error)) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

/// What is read, and what waits to be taken in.
struct Reading<W> {
    rings: Vec<Ring>,
    observer: Observer<W>,
    /// What was read and may still be preceded by something from another ring.
    waiting: Vec<KernelRecord>,
    /// The latest time of what was read in the rounds before.
    latest_ns: u64,
    damaged: u64,
}

impl<W: Write> Reading<W> {
    /// Takes in what happens until the program has ended.
    fn until_end(&mut self, child: &mut Child) -> Result<(ExitStatus, Ending), RunError> {
        let mut flushed = Instant::now();
        let status = loop {
            self.wait();
            let ended = child.try_wait().map_err(RunError::Wait)?;
            self.round(ended.is_some()).map_err(RunError::Write)?;
            if let Some(status) = ended {
                break status;
            }
            if flushed.elapsed() > FLUSHED_EVERY {
                self.observer.flush().map_err(RunError::Write)?;
                flushed = Instant::now();
            }
        };
        Ok((status, used_by_children()))
    }

    fn wait(&self) {
        let mut entries: Vec<_> = self.rings.iter().map(Ring::poll_entry).collect();
        let timeout = i32::try_from(ROUND.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: as many entries as there are. That a signal or an event ends the wait is the
        // same to the caller.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, timeout) };
    }

    /// Reads all rings, and takes in what nothing can precede any more: what is later than
    /// everything of the round before may have been written to a ring after that was read.
    fn round(&mut self, is_last: bool) -> io::Result<()> {
        let until_ns = match is_last {
            true => u64::MAX,
            false => self.latest_ns,
        };
        for ring in &mut self.rings {
            ring.drain(|bytes| match KernelRecord::read(bytes) {
                Ok(Some(record)) => self.waiting.push(record),
                Ok(None) => {}
                Err(Malformed) => self.damaged += 1,
            });
        }
        self.waiting.sort_by_key(|record| record.time_ns);
        if let Some(last) = self.waiting.last() {
            self.latest_ns = last.time_ns;
        }
        let ready = self
            .waiting
            .partition_point(|record| record.time_ns <= until_ns);
        for record in self.waiting.drain(..ready) {
            self.observer.take(record)?;
        }
        if self.damaged > 0 {
            let lost = std::mem::take(&mut self.damaged);
            self.observer.write(&Record::Lost(lost))?;
        }
        Ok(())
    }
}

/// The CPU time of all children that have ended and were waited for.
fn used_by_children() -> Ending {
    // SAFETY: zeros are a value of the structure, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_usec.unsigned_abs() * 1000
    };
    Ending {
        elapsed_ns: 0,
        user_ns: time(usage.ru_utime),
        system_ns: time(usage.ru_stime),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
