//! A run from start to end.

use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use unspool_container::TraceHeader;
use unspool_container::bytes::Malformed;
use unspool_profile_record::Source as Taken;
use unspool_profile_record::{Ending, Record, Settings, Writer};

use crate::file_size_limit;
use crate::kernel_record::KernelRecord;
use crate::observer::Observer;
use crate::perf::Perf;
use crate::perf_event::{Begins, Event, Request, SetupError, open};
use crate::sampling::Sampling;
use crate::source::{Read, Source};
use crate::timers::{LeftOut, Timers};

/// How often a reader sees what is new.
const FLUSHED_EVERY: Duration = Duration::from_millis(500);

/// What takes the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend<'a> {
    /// The kernel.
    Perf,
    /// Timers inside the program, by a library that is loaded into it.
    Timers {
        /// The library, as a file's content.
        library: &'a [u8],
        /// Which time they count.
        clock: Clock,
    },
}

/// A time of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// In which they run.
    Cpu,
    /// In which they run or wait.
    Wall,
}

/// Whether the kernel lets this user take samples.
///
/// # Errors
/// Why it does not.
pub fn is_perf_allowed() -> Result<(), SetupError> {
    let request = Request {
        event: Event::TaskClock,
        begins: Begins::AtExecution,
        period: 1_000_000_000,
        stack_bytes: 8,
        includes_kernel: false,
        wakeup_bytes: 0,
    };
    open(&request, -1).map(drop)
}

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The program's ending.
    pub status: ExitStatus,
    /// What timers inside the program have left out.
    pub left_out: LeftOut,
}

/// Why there is no run, or none to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No samples can be taken.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// There are no files for samples of timers inside the program.
    #[error("cannot make files for the samples")]
    Files(#[source] io::Error),
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
    backend: Backend<'_>,
    sampling: Sampling,
    header: TraceHeader,
    output: impl Write,
    started: impl FnOnce(u32),
) -> Result<Outcome, RunError> {
    let settings = Settings {
        period_ns: sampling.period_ns(),
        stack_bytes: sampling.stack_bytes.into(),
        includes_kernel: false,
        source: Taken::Kernel,
    };
    let begin = Begin {
        command,
        header,
        started,
    };
    match backend {
        Backend::Perf => {
            let mut perf = Perf::new(sampling)?;
            let settings = Settings {
                includes_kernel: perf.request.includes_kernel,
                ..settings
            };
            file_size_limit::lift(begin.command);
            let status = begin.record(&mut perf, settings, None, output)?;
            let left_out = LeftOut::default();
            Ok(Outcome { status, left_out })
        }
        Backend::Timers { library, clock } => {
            // The file is as large as all threads together may need.
            file_size_limit::lift(begin.command);
            let (number, source) = match clock {
                Clock::Cpu => (libc::CLOCK_THREAD_CPUTIME_ID, Taken::CpuTimers),
                Clock::Wall => (libc::CLOCK_MONOTONIC, Taken::WallTimers),
            };
            let timers = Timers::new(sampling, number, library);
            let mut timers = timers.map_err(RunError::Files)?;
            timers.join(begin.command);
            let settings = Settings { source, ..settings };
            let own = timers.library().to_string_lossy().into_owned();
            let status = begin.record(&mut timers, settings, Some(own), output)?;
            let left_out = timers.left_out();
            Ok(Outcome { status, left_out })
        }
    }
}

/// A run that is to begin.
struct Begin<'a, F> {
    command: &'a mut Command,
    header: TraceHeader,
    started: F,
}

impl<F: FnOnce(u32)> Begin<'_, F> {
    /// Starts the program, and records it to its end.
    fn record(
        self,
        source: &mut impl Source,
        settings: Settings,
        left_out: Option<String>,
        output: impl Write,
    ) -> Result<ExitStatus, RunError> {
        let start = Instant::now();
        let mut child = self.command.spawn().map_err(RunError::Start)?;
        (self.started)(child.id());
        let header = TraceHeader {
            process: child.id(),
            ..self.header
        };
        let recorded = Writer::new(output, &header).map_err(RunError::Write);
        let recorded = recorded.and_then(|writer| {
            let reading = Reading {
                source,
                observer: Observer::new(writer, left_out),
                waiting: Vec::new(),
                latest_ns: 0,
                damaged: 0,
            };
            reading.record(&mut child, start, settings)
        });
        if matches!(recorded, Err(RunError::Write(_))) {
            // Nobody reads any more what the program's end could have told.
            child.wait().map_err(RunError::Wait)?;
        }
        recorded
    }
}

/// What is read, and what waits to be taken in.
struct Reading<'a, S, W> {
    source: &'a mut S,
    observer: Observer<W>,
    /// What was read and may still be preceded by something from another thread.
    waiting: Vec<KernelRecord>,
    /// The latest time of what was read in the rounds before.
    latest_ns: u64,
    damaged: u64,
}

impl<S: Source, W: Write> Reading<'_, S, W> {
    /// Records a child from its start to its end.
    fn record(
        mut self,
        child: &mut Child,
        start: Instant,
        settings: Settings,
    ) -> Result<ExitStatus, RunError> {
        self.write(&Record::Settings(settings))?;
        let status = self.until_end(child)?;
        let counted = self
            .source
            .finish(&mut into(&mut self.waiting, &mut self.damaged));
        self.take_in(u64::MAX).map_err(RunError::Write)?;
        if let Some(counted) = counted {
            self.write(&Record::Counted(counted))?;
        }
        self.write(&Record::Ending(Ending {
            elapsed_ns: nanoseconds(start.elapsed()),
            ..used_by_children()
        }))?;
        self.observer.flush().map_err(RunError::Write)?;
        Ok(status)
    }

    fn write(&mut self, record: &Record) -> Result<(), RunError> {
        self.observer.write(record).map_err(RunError::Write)
    }

    /// Takes in what happens until the program has ended.
    fn until_end(&mut self, child: &mut Child) -> Result<ExitStatus, RunError> {
        let mut flushed = Instant::now();
        loop {
            self.source.wait();
            let ended = child.try_wait().map_err(RunError::Wait)?;
            self.round().map_err(RunError::Write)?;
            if let Some(status) = ended {
                return Ok(status);
            }
            if flushed.elapsed() > FLUSHED_EVERY {
                self.observer.flush().map_err(RunError::Write)?;
                flushed = Instant::now();
            }
        }
    }

    /// Reads all that has come, and takes in what nothing can precede any more: what is later than
    /// everything of the round before may have been written after its place was read.
    fn round(&mut self) -> io::Result<()> {
        let until_ns = self.latest_ns;
        self.source
            .drain(&mut into(&mut self.waiting, &mut self.damaged));
        self.take_in(until_ns)
    }

    /// Takes in what is not later than this.
    fn take_in(&mut self, until_ns: u64) -> io::Result<()> {
        self.waiting.sort_by_key(KernelRecord::order);
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

/// Puts what is read where it waits, and counts what is none.
fn into<'a>(waiting: &'a mut Vec<KernelRecord>, damaged: &'a mut u64) -> impl FnMut(Read) + 'a {
    |read| match read {
        Ok(record) => waiting.push(record),
        Err(Malformed) => *damaged += 1,
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
