//! Taking samples: of a program that is run, or of a process that runs already.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use unspool_collector_library::TIMER_SAMPLER;
use unspool_container::{Order, TraceHeader};
use unspool_profile_record::Recording;
use unspool_sampler::{Backend, Clock, LeftOut, Perf, RunError, Sampling, SetupError, Window};

use super::output::Output;
use crate::arguments::{BackendChoice, ClockChoice, ProfileArguments};
use crate::failure::{Failure, warn};
use crate::native_program::{ignore_interrupts, not_started, preload, status_of, termination};

/// Runs the program; gives what was recorded and the status to end with.
pub(super) fn program(
    words: &[OsString],
    typed: &ProfileArguments,
    output: Option<&Path>,
) -> Result<(Recording, u8), Failure> {
    let sampling = sampling(typed);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if (typed.json || typed.folded) && typed.report.is_none() {
        command.stdout(Stdio::from(io::stderr()));
    }
    let backend = backend(typed, &sampling)?;
    let library = match &backend {
        Backend::Timers { library, .. } => Some(library),
        Backend::Perf { library, .. } => library.as_ref(),
    };
    if let Some(library) = library {
        command.env("LD_PRELOAD", preload::variable(library));
    }
    let mut output = Output::open(output)?;
    let started = |program| {
        ignore_interrupts();
        termination::pass_on_to(program);
    };
    let header = header(words);
    let run = unspool_sampler::run(
        &mut command,
        backend,
        &sampling,
        header,
        &mut output,
        started,
    );
    termination::pass_on_no_more();
    let outcome = run.map_err(|error| match error {
        RunError::Start(error) => not_started(&words[0], &error),
        error => failure(error),
    })?;
    let status = status_of(outcome.status);
    tell(outcome.left_out);
    let recording = output.read_again()?;
    if recording
        .regions
        .is_some_and(|regions| regions.entered == 0)
    {
        warn(
            "no region of interest was entered: programs tell them by unspool_start_region (unspool.h), and those \
             that are linked statically, or start without LD_PRELOAD, are not heard",
        );
    }
    Ok((recording, status))
}

/// Samples a process until it ends, or the command is told to.
pub(super) fn process(
    pid: u32,
    typed: &ProfileArguments,
    output: Option<&Path>,
) -> Result<Recording, Failure> {
    if typed.backend == Some(BackendChoice::Timer) || typed.clock == ClockChoice::Wall {
        let problem = "timers are of programs that are started with them";
        return Err(Failure::new(problem).with_help("a process that runs needs --backend perf"));
    }
    let mut output = Output::open(output)?;
    termination::note();
    let (sampling, header) = (sampling(typed), header(&[]));
    unspool_sampler::attach(pid, &sampling, header, &mut output, termination::is_told)
        .map_err(failure)?;
    output.read_again()
}

/// What there is where the kernel does not tell of waits.
const SAMPLES_OF_WAITS: &str = "--clock wall, without --off-cpu, samples the time in which threads run or wait, and needs no rights";

/// What there is where the kernel does not sample events.
const NEEDS_KERNEL: &str = "only the kernel can: --backend perf, or neither";

fn sampling(typed: &ProfileArguments) -> Sampling {
    Sampling {
        frequency_hz: typed.frequency,
        stack_bytes: typed.stack_bytes & !7,
        off_cpu: typed.off_cpu,
        events: typed.event.clone(),
        regions: typed.roi,
        window: Window {
            delay: typed.delay,
            duration: typed.duration,
        },
    }
}

/// What takes the samples: as was typed, or as the kernel allows.
fn backend(typed: &ProfileArguments, sampling: &Sampling) -> Result<Backend, Failure> {
    let library = || preload::kept("unspool_timer_sampler", TIMER_SAMPLER);
    let timers = |clock| -> Result<Backend, Failure> {
        let library = library()?;
        Ok(Backend::Timers { library, clock })
    };
    let by_kernel = |perf| -> Result<Backend, Failure> {
        let library = typed.roi.then(library).transpose()?;
        let perf = Box::new(perf);
        Ok(Backend::Perf { perf, library })
    };
    if typed.off_cpu {
        if typed.backend == Some(BackendChoice::Timer) {
            let problem = "timers do not tell waiting from running";
            return Err(Failure::new(problem).with_help(SAMPLES_OF_WAITS));
        }
        let perf = Perf::new(sampling).map_err(|error| failure(error.into()))?;
        return by_kernel(perf);
    }
    if !typed.event.is_empty() {
        if typed.backend == Some(BackendChoice::Timer) {
            let problem = "timers do not sample events";
            return Err(Failure::new(problem).with_help(NEEDS_KERNEL));
        }
        let perf = Perf::new(sampling).map_err(|error| failure(error.into()))?;
        return by_kernel(perf);
    }
    match (typed.backend, typed.clock) {
        (Some(BackendChoice::Perf), ClockChoice::Cpu) => match Perf::new(sampling) {
            Ok(perf) => by_kernel(perf),
            Err(error) => Err(failure(error.into())),
        },
        (Some(BackendChoice::Perf), ClockChoice::Wall) => {
            let problem = "the kernel does not sample the time in which threads wait";
            Err(Failure::new(problem).with_help("--backend timer --clock wall does"))
        }
        (_, ClockChoice::Wall) => timers(Clock::Wall),
        (Some(BackendChoice::Timer), ClockChoice::Cpu) => timers(Clock::Cpu),
        (None, ClockChoice::Cpu) => match Perf::new(sampling) {
            Ok(perf) => by_kernel(perf),
            Err(error) => {
                warn(format_args!(
                    "{error}: timers inside the program take them (--backend perf would not run it)"
                ));
                timers(Clock::Cpu)
            }
        },
    }
}

/// Says what timers inside the program have left out.
fn tell(left_out: LeftOut) {
    if left_out.everything {
        warn(
            "nothing was sampled: no process has loaded the library that does it. Programs that are \
             linked statically, run with other rights, or start without LD_PRELOAD need \
             --backend perf",
        );
    }
    let causes = [
        (
            left_out.without_slot,
            "threads",
            "more ran at one time than there is room for",
        ),
        (
            left_out.without_memory,
            "threads",
            "there was no memory for their samples",
        ),
        (
            left_out.without_timer,
            "threads",
            "the kernel gave no timer (ulimit -i)",
        ),
        (
            left_out.elsewhere,
            "processes",
            "they are in another PID namespace",
        ),
    ];
    for (count, what, why) in causes.into_iter().filter(|cause| cause.0 > 0) {
        warn(format_args!("{count} {what} were not sampled: {why}"));
    }
}

pub(super) fn header(words: &[OsString]) -> TraceHeader {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    TraceHeader {
        order: Order::None,
        granule: 0,
        program: words
            .first()
            .map_or_else(Vec::new, |word| word.as_bytes().to_vec()),
        arguments: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        options: Vec::new(),
        process: 0,
        parent_process: None,
        start_unix_ns: since.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0)),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn failure(error: RunError) -> Failure {
    match error {
        RunError::Setup(SetupError::Forbidden { .. }) => Failure::from(error).with_help(
            "sysctl kernel.perf_event_paranoid=2 lets every user sample programs of their own; \
             --backend timer needs no rights",
        ),
        RunError::Setup(SetupError::WaitsForbidden { .. }) => {
            Failure::from(error).with_help(format!(
                "sysctl kernel.perf_event_paranoid=1 lets every user see it; {SAMPLES_OF_WAITS}"
            ))
        }
        RunError::Setup(SetupError::EventForbidden { .. }) => Failure::from(error)
            .with_help("sysctl kernel.perf_event_paranoid=1 lets every user sample it"),
        RunError::Setup(SetupError::NoEvent { .. }) => Failure::from(error).with_help(
            "the processor has no such counter, or it is kept from this machine, as from most virtual ones; \
             unspool doctor says whether any are here",
        ),
        RunError::Setup(SetupError::NoMemory { .. }) => Failure::from(error).with_help(
            "another profiler of this user may have it; sysctl kernel.perf_event_mlock_kb=4096 \
             gives each user more, and --backend timer needs none",
        ),
        RunError::Setup(SetupError::Foreign { .. }) => Failure::from(error)
            .with_help("run this command as the user whose process it is, or as root"),
        RunError::Write(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Failure::from(RunError::Write(error))
                .with_help("ulimit -f unlimited, before, lets files grow as far as is needed")
        }
        error => Failure::from(error),
    }
}
