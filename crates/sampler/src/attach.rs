//! Recording a process that runs already.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant, SystemTime};

use unspool_container::TraceHeader;

use crate::clock::{now_ns, time_ns};
use crate::perf::Perf;
use crate::perf_event::SetupError;
use crate::recording::{Recording, Run};
use crate::run_error::RunError;
use crate::sampling::Sampling;

/// Records all threads of a process, and what these start, until the process ends, the sampling's
/// window is over, or `is_over` says so, which is asked some twenty times a second and when a signal
/// has come. The process is left as it is. The recording's header gets its program and arguments.
///
/// # Errors
/// If there is no such process, the kernel takes no samples of it, or the recording cannot be
/// written.
pub fn attach(
    pid: u32,
    sampling: &Sampling,
    header: TraceHeader,
    output: impl Write,
    mut is_over: impl FnMut() -> bool,
) -> Result<(), RunError> {
    let process = Process::open(pid)?;
    let mut perf = Perf::attach(pid, sampling)?;
    let settings = perf.settings(sampling);
    let header = TraceHeader {
        process: pid,
        ..described(pid, header)
    };
    let before = used(pid).unwrap_or_default();
    let mut latest = before;
    let start = Instant::now();
    let run = Run {
        start_ns: now_ns(),
        since: began(pid).unwrap_or_else(SystemTime::now),
        window: sampling.window,
        has_waits: sampling.off_cpu,
        events: sampling.recorded_events(),
        marks: None,
    };
    let end = sampling.window.end();
    let mut recording = Recording::begin(&mut perf, output, &header, None, settings, run)?;
    recording.until(|| {
        latest = used(pid).unwrap_or(latest);
        let is_late = end.is_some_and(|end| start.elapsed() >= end);
        Ok((is_late || is_over() || process.has_ended()).then_some(()))
    })?;
    recording.end((
        latest.0.saturating_sub(before.0),
        latest.1.saturating_sub(before.1),
    ))
}

/// A process, by which no other one is meant that gets its number later.
struct Process(OwnedFd);

impl Process {
    fn open(pid: u32) -> Result<Process, SetupError> {
        // SAFETY: the arguments are numbers.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        match i32::try_from(descriptor) {
            // SAFETY: the kernel has just given it, to nobody else.
            Ok(descriptor @ 0..) => Ok(Process(unsafe { OwnedFd::from_raw_fd(descriptor) })),
            _ => Err(match io::Error::last_os_error() {
                // The number of a thread beside the first is that of no process.
                error if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => {
                    SetupError::NoProcess(pid)
                }
                error => SetupError::Impossible(error),
            }),
        }
    }

    fn has_ended(&self) -> bool {
        let mut entry = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry of this frame.
        unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
    }
}

/// The header with the program that a process executes, and its arguments.
fn described(pid: u32, header: TraceHeader) -> TraceHeader {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    let program = program.map(|path| path.as_os_str().as_bytes().to_vec());
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    let arguments = words.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    TraceHeader {
        program: program.unwrap_or_default(),
        arguments: arguments.collect(),
        ..header
    }
}

/// The CPU time of a process so far, in user mode and in the kernel.
fn used(pid: u32) -> Option<(u64, u64)> {
    let [user_ns, system_ns] = status_times(pid, [14, 15])?;
    Some((user_ns, system_ns))
}

/// When a process began.
fn began(pid: u32) -> Option<SystemTime> {
    let [began_ns] = status_times(pid, [22])?;
    let age_ns = time_ns(libc::CLOCK_BOOTTIME).saturating_sub(began_ns);
    SystemTime::now().checked_sub(Duration::from_nanos(age_ns))
}

/// Times of a process, by the numbers that their fields have (`proc_pid_stat(5)`).
fn status_times<const COUNT: usize>(pid: u32, fields: [usize; COUNT]) -> Option<[u64; COUNT]> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may have any characters, and is in parentheses; it is the second field.
    let (_, behind) = text.rsplit_once(')')?;
    let behind: Vec<&str> = behind.split_ascii_whitespace().collect();
    // SAFETY: asks for a number.
    let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let mut times = [0; COUNT];
    for (time, field) in times.iter_mut().zip(fields) {
        let count: u64 = behind.get(field.checked_sub(3)?)?.parse().ok()?;
        *time = count.checked_mul(1_000_000_000)? / ticks.max(1);
    }
    Some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_says_what_it_is_and_what_it_has_used() {
        let own = std::process::id();
        let start = used(own).unwrap();
        let patience = Instant::now();
        while used(own).unwrap().0 == start.0 {
            assert!(patience.elapsed().as_secs() < 60);
        }
        let age = began(own).unwrap().elapsed().unwrap();
        assert!(age < Duration::from_secs(24 * 3600), "{age:?}");
        assert!(!Process::open(own).unwrap().has_ended());
        // No process has a number so high.
        let nobody = Process::open((1 << 22) - 1);
        assert!(matches!(nobody, Err(SetupError::NoProcess(_))));
    }
}
