//! A run from start to end.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

use unspool_container::TraceHeader;
use unspool_profile_record::{Settings, Source as Taken};

use crate::clock::now_ns;
use crate::file_size_limit;
use crate::perf::Perf;
use crate::recording::{Recording, Run};
use crate::region_marks::RegionMarks;
use crate::run_error::RunError;
use crate::sampling::Sampling;
use crate::source::Source;
use crate::timers::{LeftOut, Timers};

/// What takes the samples.
#[derive(Debug)]
pub enum Backend {
    /// The kernel.
    Perf {
        /// Its events.
        perf: Box<Perf>,
        /// The library that hears what the program says is of interest, which the command has its program
        /// load, if that is asked for.
        library: Option<PathBuf>,
    },
    /// Timers inside the program, by a library that is loaded into it.
    Timers {
        /// The library, which the command has its program load.
        library: PathBuf,
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

/// How a run ended.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The program's ending.
    pub status: ExitStatus,
    /// What timers inside the program have left out.
    pub left_out: LeftOut,
}

/// Runs a command and writes its recording, with the number of the process in its header. `started`
/// is told that number; nothing is written before.
///
/// This process may write files of any size from now on, as far as its user is allowed to; the
/// command is under the limit that held before.
///
/// # Errors
/// If samples cannot be taken, the program cannot be started, or the recording not be written.
/// When writing fails, the program goes on, and is waited for.
pub fn run(
    command: &mut Command,
    backend: Backend,
    sampling: &Sampling,
    header: TraceHeader,
    output: impl Write,
    started: impl FnOnce(u32),
) -> Result<Outcome, RunError> {
    // Files of timers are as large as all threads together may need.
    file_size_limit::lift(command);
    let begin = Begin {
        command,
        sampling,
        header,
        started,
    };
    match backend {
        Backend::Perf { mut perf, library } => {
            let settings = perf.settings(begin.sampling);
            let own = library.map(|library| library.to_string_lossy().into_owned());
            let status = begin.record(&mut *perf, settings, own, output)?;
            let left_out = LeftOut::default();
            Ok(Outcome { status, left_out })
        }
        Backend::Timers { library, clock } => {
            let (number, source) = match clock {
                Clock::Cpu => (libc::CLOCK_THREAD_CPUTIME_ID, Taken::CpuTimers),
                Clock::Wall => (libc::CLOCK_MONOTONIC, Taken::WallTimers),
            };
            let mut timers = Timers::new(sampling, number).map_err(RunError::Files)?;
            timers.join(begin.command);
            let settings = sampling.settings(source, false);
            let own = library.to_string_lossy().into_owned();
            let status = begin.record(&mut timers, settings, Some(own), output)?;
            let left_out = timers.left_out();
            Ok(Outcome { status, left_out })
        }
    }
}

/// A run that is to begin.
struct Begin<'a, F> {
    command: &'a mut Command,
    sampling: &'a Sampling,
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
        let marks = match self.sampling.regions {
            true => Some(RegionMarks::new().map_err(RunError::Files)?),
            false => None,
        };
        if let Some(marks) = &marks {
            marks.join(self.command);
        }
        let run = Run {
            start_ns: now_ns(),
            since: SystemTime::now(),
            window: self.sampling.window,
            has_waits: self.sampling.off_cpu,
            events: self.sampling.recorded_events(),
            marks,
        };
        let mut child = self.command.spawn().map_err(RunError::Start)?;
        (self.started)(child.id());
        let header = TraceHeader {
            process: child.id(),
            ..self.header
        };
        let record = || -> Result<ExitStatus, RunError> {
            let recording = Recording::begin(source, output, &header, left_out, settings, run);
            let mut recording = recording?;
            let status = recording.until(|| child.try_wait().map_err(RunError::Wait))?;
            recording.end(used_by_children())?;
            Ok(status)
        };
        let recorded = record();
        if matches!(recorded, Err(RunError::Write(_))) {
            // Nobody reads any more what the program's end could have told.
            child.wait().map_err(RunError::Wait)?;
        }
        recorded
    }
}

/// The CPU time of all children that have ended and were waited for, in user mode and in the kernel.
fn used_by_children() -> (u64, u64) {
    // SAFETY: zeros are a value of the structure, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_usec.unsigned_abs() * 1000
    };
    (time(usage.ru_utime), time(usage.ru_stime))
}
