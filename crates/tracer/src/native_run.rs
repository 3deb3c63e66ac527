//! A run of the program as it is, before it is observed: what observation costs is told as
//! a ratio to it.
//!
//! The program then runs twice, so this is done only where the user asks for it, and only
//! where both runs can read the same standard input. What the native run prints is read
//! and dropped: files and terminals see the observed run alone.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use unspool_engine::plan::Program;

/// What a run cost: its own time, and that of the children that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cost {
    /// Processor time, of user and system.
    pub(crate) processor: Duration,
    /// From beginning to end.
    pub(crate) wall: Duration,
}

/// Why there is no native run.
#[derive(Debug, thiserror::Error)]
pub enum NativeRunError {
    /// What it would read, the observed run could not read again.
    #[error(
        "standard input is neither a file nor a terminal nor /dev/null, so it cannot be read twice"
    )]
    Input,
    /// The program could not be started or waited for.
    #[error("cannot run the program natively")]
    Run(#[from] std::io::Error),
}

/// Runs the program natively, to its end.
///
/// # Errors
/// If standard input cannot be read twice, or the program cannot be started.
pub(crate) fn run(program: &Program) -> Result<Cost, NativeRunError> {
    let position = input_position()?;
    let (output, output_end) = std::io::pipe()?;
    let before = processor_time(libc::RUSAGE_CHILDREN);
    let started = Instant::now();
    let mut child = {
        // The command keeps its end of the pipe open: it must go before the pipe is read.
        let mut command = Command::new(&program.path);
        let (name, arguments) = program.arguments.split_first().ok_or(no_name())?;
        command
            .arg0(std::ffi::OsStr::from_bytes(name.as_bytes()))
            .args(
                arguments
                    .iter()
                    .map(|word| std::ffi::OsStr::from_bytes(word.as_bytes())),
            )
            .stdout(output_end.try_clone()?)
            .stderr(Stdio::from(output_end));
        command.spawn()?
    };
    drain_until_exit(output, child.id())?;
    child.wait()?;
    let cost = Cost {
        processor: processor_time(libc::RUSAGE_CHILDREN).saturating_sub(before),
        wall: started.elapsed(),
    };
    if let Some(position) = position {
        standard_input().seek(SeekFrom::Start(position))?;
    }
    Ok(cost)
}

fn no_name() -> std::io::Error {
    std::io::Error::other("the program has no name")
}

fn standard_input() -> ManuallyDrop<File> {
    // SAFETY: the descriptor is borrowed only: the file is never dropped.
    ManuallyDrop::new(unsafe { File::from_raw_fd(0) })
}

/// Where in its file standard input stands; nothing where it has no position to return to.
fn input_position() -> Result<Option<u64>, NativeRunError> {
    const NULL_DEVICE: u64 = libc::makedev(1, 3);
    let mut input = standard_input();
    let Ok(facts) = input.metadata() else {
        // It is closed.
        return Ok(None);
    };
    let kind = facts.file_type();
    // SAFETY: asks about a descriptor.
    let terminal = unsafe { libc::isatty(0) } == 1;
    if kind.is_file() {
        Ok(Some(input.stream_position()?))
    } else if terminal || kind.is_char_device() && facts.rdev() == NULL_DEVICE {
        Ok(None)
    } else {
        Err(NativeRunError::Input)
    }
}

/// Reads and drops what comes through the pipe until the child has exited. (The pipe may
/// stay open for longer: the child's own children may hold it.)
fn drain_until_exit(mut output: std::io::PipeReader, child: u32) -> std::io::Result<()> {
    // SAFETY: the child has not been waited for, so the number is its own.
    let exited = unsafe {
        let number = libc::syscall(libc::SYS_pidfd_open, child, 0);
        if number < 0 {
            return Err(std::io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(number as i32)
    };
    let mut dropped = vec![0; 1 << 16];
    let mut open = true;
    loop {
        let wanted = |number: i32| libc::pollfd {
            fd: number,
            events: libc::POLLIN,
            revents: 0,
        };
        let pipe = if open { output.as_raw_fd() } else { -1 };
        let mut watched = [wanted(exited.as_raw_fd()), wanted(pipe)];
        // SAFETY: the array has two elements.
        if unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) } < 0 {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error);
            }
            continue;
        }
        if watched[1].revents != 0 {
            open = output.read(&mut dropped)? != 0;
        } else if watched[0].revents != 0 {
            return Ok(());
        }
    }
}

/// Processor time so far of this process (`RUSAGE_SELF`) or of the children that it has
/// waited for (`RUSAGE_CHILDREN`).
fn processor_time(whose: i32) -> Duration {
    // SAFETY: all fields are integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable.
    unsafe { libc::getrusage(whose, &raw mut usage) };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Measures what this process costs from some moment on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meter {
    started: Instant,
    processor_before: Duration,
}

/// Processor time that this process has taken, and the children that it has waited for, in
/// nanoseconds.
#[must_use]
pub(crate) fn processor_time_ns() -> u64 {
    whole_processor_time().as_nanos() as u64
}

/// The time of day, in nanoseconds since 1970.
pub(crate) fn now_unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

/// The time by the clock that nobody sets, in nanoseconds.
#[must_use]
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Meter {
    /// Begins to measure.
    #[must_use]
    pub(crate) fn start() -> Meter {
        Meter {
            started: Instant::now(),
            processor_before: whole_processor_time(),
        }
    }

    /// What the process has cost since.
    #[must_use]
    pub(crate) fn cost(&self) -> Cost {
        Cost {
            processor: whole_processor_time().saturating_sub(self.processor_before),
            wall: self.started.elapsed(),
        }
    }
}

fn whole_processor_time() -> Duration {
    processor_time(libc::RUSAGE_SELF) + processor_time(libc::RUSAGE_CHILDREN)
}
