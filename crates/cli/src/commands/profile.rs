//! `unspool profile`: where does the time go?

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use unspool_collector_library::TIMER_SAMPLER;
use unspool_container::{Order, TraceHeader};
use unspool_profile::{Profile, View, export};
use unspool_profile_record::{ReadError, Recording};
use unspool_sampler::{Backend, Clock, LeftOut, RunError, Sampling, SetupError, is_perf_allowed};

use super::standard_output::print_result;
use crate::arguments::{BackendChoice, ClockChoice, ProfileArguments, ViewChoice};
use crate::exit_status;
use crate::failure::{Failure, warn};
use crate::native_program::{ignore_interrupts, not_started, status_of, termination};

/// Bytes that tell a recording from a program.
const START_BYTES: u64 = 64;

/// Runs a program and reports, or reports on what was recorded before.
pub(crate) fn profile(typed: &ProfileArguments) -> Result<u8, Failure> {
    let (recording, status) = match typed.words.as_slice() {
        [file] if is_recording(Path::new(file)) => (read(Path::new(file))?, exit_status::SUCCESS),
        words => observe(words, typed)?,
    };
    let profile = Profile::new(&recording);
    profile.problems.iter().for_each(warn);
    let report = if typed.json {
        serde_json::to_string_pretty(&profile.to_json())? + "\n"
    } else if typed.folded {
        profile.to_folded()
    } else {
        let views: Vec<View> = typed.view.iter().copied().map(view).collect();
        profile.to_text(&views)
    };
    export(&recording, typed)?;
    match &typed.report {
        Some(path) => keep(path, report.as_bytes())?,
        None => print_result(report.as_bytes())?,
    }
    let is_damaged = !recording.problems.is_empty() || recording.ending.is_none();
    Ok(match status {
        exit_status::SUCCESS if is_damaged => exit_status::INPUT_DAMAGED,
        status => status,
    })
}

fn keep(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::cannot_write(path, error))
}

/// Writes what other programs are to read.
fn export(recording: &Recording, typed: &ProfileArguments) -> Result<(), Failure> {
    if let Some(path) = &typed.pprof {
        keep(path, &export::pprof(recording)?)?;
    }
    if let Some(path) = &typed.firefox {
        keep(path, &serde_json::to_vec(&export::firefox(recording))?)?;
    }
    if let Some(path) = &typed.speedscope {
        keep(path, &serde_json::to_vec(&export::speedscope(recording))?)?;
    }
    Ok(())
}

fn view(choice: ViewChoice) -> View {
    match choice {
        ViewChoice::Flat => View::Flat,
        ViewChoice::TopDown => View::TopDown,
        ViewChoice::BottomUp => View::BottomUp,
    }
}

/// Whether a file is a recording, or another file of Unspool, which is no program either.
fn is_recording(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.is_ok() && Recording::begins(&start)
}

fn read(path: &Path) -> Result<Recording, Failure> {
    let context = || format!("cannot use {}", path.display());
    let bytes = std::fs::read(path).with_context(context)?;
    Recording::read(&bytes).map_err(|error| {
        let has_others = error == ReadError::NoSamples;
        let failure = Failure::from(anyhow::Error::new(error).context(context()));
        match has_others {
            true => failure.with_help(format!("unspool info {} says what it is", path.display())),
            false => failure,
        }
    })
}

/// What takes the samples: as was typed, or as the kernel allows.
fn backend(typed: &ProfileArguments) -> Result<Backend<'static>, Failure> {
    let timers = |clock| Backend::Timers {
        library: TIMER_SAMPLER,
        clock,
    };
    Ok(match (typed.backend, typed.clock) {
        (Some(BackendChoice::Perf), ClockChoice::Cpu) => Backend::Perf,
        (Some(BackendChoice::Perf), ClockChoice::Wall) => {
            let problem = "the kernel does not sample the time in which threads wait";
            return Err(Failure::new(problem).with_help("--backend timer --clock wall does"));
        }
        (_, ClockChoice::Wall) => timers(Clock::Wall),
        (Some(BackendChoice::Timer), ClockChoice::Cpu) => timers(Clock::Cpu),
        (None, ClockChoice::Cpu) => match is_perf_allowed() {
            Ok(()) => Backend::Perf,
            Err(error) => {
                warn(format_args!(
                    "{error}: timers inside the program take them (--backend perf would not run it)"
                ));
                timers(Clock::Cpu)
            }
        },
    })
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

/// Runs the program; gives what was recorded and the status to end with.
fn observe(words: &[OsString], typed: &ProfileArguments) -> Result<(Recording, u8), Failure> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    if (typed.json || typed.folded) && typed.report.is_none() {
        command.stdout(Stdio::from(io::stderr()));
    }
    let file = typed.output.as_ref().map(|path| {
        let failed = |error| Failure::cannot_write(path, error);
        File::create(path).map_err(failed)
    });
    let mut output = Output {
        file: file.transpose()?,
        bytes: Vec::new(),
    };
    let sampling = Sampling {
        frequency_hz: typed.frequency,
        stack_bytes: typed.stack_bytes & !7,
    };
    let started = |program| {
        ignore_interrupts();
        termination::pass_on_to(program);
    };
    let backend = backend(typed)?;
    let header = header(words);
    let run = unspool_sampler::run(
        &mut command,
        backend,
        sampling,
        header,
        &mut output,
        started,
    );
    termination::pass_on_no_more();
    let outcome = run.map_err(|error| failure(error, &words[0]))?;
    let status = status_of(outcome.status);
    tell(outcome.left_out);
    let recording = Recording::read(&output.bytes).context("cannot read the recording again")?;
    Ok((recording, status))
}

/// What is reported at the end of the run, and the file in which it is kept, if it is.
struct Output {
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.file {
            Some(file) => file.write(bytes)?,
            None => bytes.len(),
        };
        self.bytes.extend_from_slice(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

fn header(words: &[OsString]) -> TraceHeader {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    TraceHeader {
        order: Order::None,
        granule: 0,
        program: words[0].as_bytes().to_vec(),
        arguments: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        options: Vec::new(),
        process: 0,
        parent_process: None,
        start_unix_ns: since.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0)),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn failure(error: RunError, program: &OsString) -> Failure {
    match error {
        RunError::Start(error) => not_started(program, &error),
        RunError::Setup(SetupError::Forbidden { .. }) => Failure::from(error).with_help(
            "sysctl kernel.perf_event_paranoid=2 lets every user sample programs of their own; \
             --backend timer needs no rights",
        ),
        RunError::Write(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Failure::from(RunError::Write(error))
                .with_help("ulimit -f unlimited, before, lets files grow as far as is needed")
        }
        error => Failure::from(error),
    }
}
