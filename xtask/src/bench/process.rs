//! Runs a command to its end, with all its descendants, and says what that cost.
//!
//! The kernel adds the times of a process to its parent's account only when the parent
//! waits for it. This process therefore adopts orphans, and waits until no child is left in
//! the command's process group. A descendant that changes its group and outlives its
//! parent is not counted.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// By the time limit.
    TimedOut,
}

/// What a run cost, all processes together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu_s: f64,
    /// From start to end of the last process.
    pub(crate) wall_s: f64,
    /// Resident set of the largest process at its peak. Not below this process's own,
    /// a few megabytes: the kernel counts the moment before the program was executed.
    pub(crate) largest_process_bytes: u64,
}

/// Makes this process the parent of its descendants' orphans.
///
/// # Errors
/// The kernel's, if it refuses.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // SAFETY: this option takes one integer and touches no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Runs a command in a process group of its own until it and all its descendants have
/// ended; kills the group after `time_limit`. `started` learns the process id.
///
/// # Errors
/// If the command cannot be started.
pub(crate) fn run_to_end(
    command: &mut Command,
    time_limit: Duration,
    started: impl FnOnce(u32),
) -> io::Result<(End, Usage)> {
    let start = Instant::now();
    let child = command.process_group(0).spawn()?;
    let process = child.id();
    started(process);

    let (all_ended, ended) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let expired = ended.recv_timeout(time_limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if expired {
            kill_group(process);
        }
        expired
    });

    let mut end = End::TimedOut;
    let mut usage = Usage {
        cpu_s: 0.0,
        wall_s: 0.0,
        largest_process_bytes: 0,
    };
    while let Some((reaped, status, cost)) = wait_in_group(process)? {
        if reaped == process {
            end = status;
        }
        usage.cpu_s += seconds(cost.ru_utime) + seconds(cost.ru_stime);
        usage.largest_process_bytes = usage
            .largest_process_bytes
            .max(cost.ru_maxrss as u64 * 1024);
    }
    usage.wall_s = start.elapsed().as_secs_f64();
    drop(all_ended);
    if watchdog.join().unwrap_or(false) {
        end = End::TimedOut;
    }
    Ok((end, usage))
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 * 1e-6
}

fn kill_group(leader: u32) {
    // SAFETY: sends a signal and touches no memory. The leader's id cannot have been given
    // to another group while members of this one live, and the caller stops calling when
    // the last of them was reaped.
    unsafe { libc::kill(-(leader as i32), libc::SIGKILL) };
}

/// Waits for one child in a process group; none if no child is left there.
fn wait_in_group(leader: u32) -> io::Result<Option<(u32, End, libc::rusage)>> {
    loop {
        let mut status = 0;
        // SAFETY: all zeros is a value of this plain structure.
        let mut cost: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live local variables of the right types.
        let reaped = unsafe { libc::wait4(-(leader as i32), &raw mut status, 0, &raw mut cost) };
        if reaped > 0 {
            let end = if libc::WIFSIGNALED(status) {
                End::Signalled(libc::WTERMSIG(status))
            } else {
                End::Exited(libc::WEXITSTATUS(status))
            };
            return Ok(Some((reaped as u32, end, cost)));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ECHILD) => return Ok(None),
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit_s: f64) -> (End, Usage) {
        adopt_orphans().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_to_end(&mut command, Duration::from_secs_f64(limit_s), |_| ()).unwrap()
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(shell("exit 3", 10.0).0, End::Exited(3));
        assert_eq!(shell("kill -9 $$", 10.0).0, End::Signalled(9));
        assert_eq!(shell("sleep 20", 0.2).0, End::TimedOut);
    }

    #[test]
    fn orphans_are_waited_for_and_counted() {
        let script = "(i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; sleep 0.2) &";
        let (end, usage) = shell(script, 30.0);
        assert_eq!(end, End::Exited(0));
        assert!(usage.wall_s > 0.2, "{usage:?}");
        assert!(usage.cpu_s > 0.01, "{usage:?}");
    }
}
