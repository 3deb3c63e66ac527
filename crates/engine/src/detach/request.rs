//! Asking another process to be let go.
//!
//! Whoever asks holds the name of an abstract socket meanwhile, so that it is one at a time: the
//! signal that asks would kill a process that has just been let go. The signal says where the
//! answer is to be written: into a pipe, which the process closes as the last thing that happens
//! before it runs natively.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use unspool_kernel::ids::{Pid, Tid};

use super::mark;
use crate::process::HELPER;
use crate::requests::{CONTINUE, REQUEST, STOP_AFTERWARDS};
use crate::signals::STOP;

/// How long a process may take, under any load.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);

/// What an observed process writes when it has taken the request.
pub(super) const TAKEN: u8 = b'+';
/// What it writes before the reason if it cannot be let go.
pub(super) const REFUSED: u8 = b'-';

/// Why a process was not let go.
#[derive(Debug)]
pub enum AskError {
    /// There is none with this id.
    NoProcess,
    /// It is not observed by unspool.
    NotObserved,
    /// The kernel does not let the user look at it, or ask it.
    Forbidden(io::Error),
    /// It cannot be, for this reason.
    Refused(String),
    /// It did not answer.
    Silent,
}

impl AskError {
    /// What an error says of a process that was there.
    fn of(error: io::Error) -> AskError {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => AskError::NoProcess,
            _ => AskError::Forbidden(error),
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::NoProcess => write!(to, "there is no such process"),
            AskError::NotObserved => write!(to, "it is not observed by unspool"),
            AskError::Forbidden(error) => write!(to, "the system does not allow it: {error}"),
            AskError::Refused(reason) => write!(to, "it stays under observation: {reason}"),
            AskError::Silent => write!(
                to,
                "it has not answered for {} seconds; it may be stopped, or wait in the kernel",
                PATIENCE.as_secs()
            ),
        }
    }
}

impl std::error::Error for AskError {}

/// Asks the process of a thread to be let go, and waits until it is: whoever names a process names
/// its first thread. A process that is stopped is stopped afterwards.
///
/// # Errors
/// It was not let go.
pub fn ask(thread: Tid) -> Result<(), AskError> {
    let process = process_of(thread).ok_or(AskError::NoProcess)?;
    let is_shown = || mark::is_shown(process).map_err(AskError::of);
    if !is_shown()? {
        return Err(AskError::NotObserved);
    }
    let _turn = Turn::take(process);
    // SAFETY: opens a descriptor that is nobody else's.
    let target = unsafe { owned(libc::syscall(libc::SYS_pidfd_open, process.get(), 0)) };
    let target = target.map_err(|_| AskError::NoProcess)?;
    if !is_shown()? {
        return Err(AskError::NotObserved);
    }
    let is_stopped = state(process) == Some('T');
    let report = is_stopped && has_report(process);
    let answer = send_request(&target, is_stopped)?;
    let proceed = || send(&target, libc::SIGCONT, &signal(libc::SIGCONT, CONTINUE));
    if is_stopped {
        proceed().map_err(AskError::of)?;
    }
    let mut stops_late = false;
    let result = await_answer(&answer, process, || {
        // It had been about to stop when it was asked.
        if !is_stopped && state(process) == Some('T') {
            stops_late = proceed().is_ok();
        }
    });
    if result.is_ok() {
        await_last_instructions();
    }
    if is_stopped && result.is_ok() {
        await_stop(process, report);
    } else if is_stopped || stops_late {
        // It may be gone.
        let _ = send(&target, libc::SIGSTOP, &signal(libc::SIGSTOP, 0));
    }
    result
}

/// The answer comes in a thread's last system call but one, and others may look at the process as
/// soon as they have it: a few instructions later all threads are the program's alone.
fn await_last_instructions() {
    std::thread::sleep(Duration::from_millis(2));
}

/// The processes that a process has started, and those that these have, first those that were
/// started last.
#[must_use]
pub fn descendants(process: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let numbers = numbers.map(Pid::of);
    let numbers = numbers.filter(|&number| !is_keeper(number));
    let parents: Vec<(Pid, Pid)> = numbers
        .filter_map(|number| Some((number, Pid::of(stat_field(number, 1)?.parse().ok()?))))
        .collect();
    let mut found = vec![process];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = parents.iter().filter(|(_, its)| *its == parent);
        found.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    found.remove(0);
    found.reverse();
    found
}

/// Whether a process is the engine's own, which goes when that goes for which it works.
fn is_keeper(process: Pid) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
    name.is_ok_and(|name| HELPER.to_str() == Ok(name.trim_end()))
}

/// Whether the process of a thread shows that it is observed.
#[must_use]
pub(super) fn is_observed(thread: Tid) -> bool {
    process_of(thread).is_some_and(|process| mark::is_shown(process).unwrap_or(false))
}

/// The process that a thread belongs to.
fn process_of(thread: Tid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid::of)
}

/// A field of `/proc/PID/stat`, counted from the state.
fn stat_field(process: Pid, number: usize) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat).into_owned();
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number).map(str::to_owned)
}

fn state(process: Pid) -> Option<char> {
    stat_field(process, 0)?.chars().next()
}

/// # Safety
/// A number that is not negative must be a descriptor that is nobody else's.
unsafe fn owned(number: i64) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller's.
    Ok(unsafe { OwnedFd::from_raw_fd(number as RawFd) })
}

/// What a queued signal of this number carries, with a word that says what it is.
fn signal(number: i32, what: u64) -> [u64; 16] {
    let mut info = [0_u64; 16];
    info[0] = number as u64;
    info[1] = u64::from(libc::SI_QUEUE as u32);
    // SAFETY: has no preconditions.
    let user = unsafe { libc::getuid() };
    info[2] = u64::from(std::process::id()) | u64::from(user) << 32;
    info[3] = what;
    info
}

fn send(target: &OwnedFd, number: i32, info: &[u64; 16]) -> io::Result<()> {
    // SAFETY: the kernel reads a siginfo of 128 bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            target.as_raw_fd(),
            number,
            info.as_ptr(),
            0,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A pipe: where the answer comes from, and where it is to be written to.
struct Answer {
    from: OwnedFd,
    to: OwnedFd,
}

fn send_request(target: &OwnedFd, stops: bool) -> Result<Answer, AskError> {
    let mut ends = [-1; 2];
    // SAFETY: the kernel writes two descriptors, which are nobody else's.
    let answer = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(AskError::Forbidden(io::Error::last_os_error()));
        }
        Answer {
            from: OwnedFd::from_raw_fd(ends[0]),
            to: OwnedFd::from_raw_fd(ends[1]),
        }
    };
    let mut info = signal(STOP, REQUEST);
    info[4] = u64::from(std::process::id());
    info[5] = answer.to.as_raw_fd() as u64 | if stops { STOP_AFTERWARDS } else { 0 };
    send(target, STOP, &info).map_err(AskError::of)?;
    Ok(answer)
}

/// Waits until the process has closed the pipe, or is seen to be let go where it could not open it.
fn await_answer(
    answer: &Answer,
    process: Pid,
    mut meanwhile: impl FnMut(),
) -> Result<(), AskError> {
    let deadline = Instant::now() + PATIENCE;
    let mut text = Vec::new();
    let mut own_end = Some(&answer.to);
    loop {
        if let Some(bytes) = read_some(&answer.from) {
            if bytes.is_empty() {
                break;
            }
            text.extend(bytes);
            if let Some(end) = own_end.take() {
                // From here on the pipe is open as long as the process has it. The number stays
                // taken: what is behind it is replaced.
                // SAFETY: both descriptors are this function's own.
                unsafe { libc::dup3(answer.from.as_raw_fd(), end.as_raw_fd(), libc::O_CLOEXEC) };
            }
            continue;
        }
        meanwhile();
        match mark::is_shown(process) {
            Ok(true) if Instant::now() < deadline => {}
            Ok(true) => return Err(AskError::Silent),
            // It may be let go without an answer; if one is under way, it comes now.
            Ok(false) if own_end.is_some() => std::thread::sleep(10 * PAUSE),
            Ok(false) => {}
            Err(_) => return Err(AskError::NoProcess),
        }
        if own_end.is_some() && matches!(mark::is_shown(process), Ok(false)) {
            break;
        }
    }
    match text.split_first() {
        Some((&REFUSED, reason)) => Err(AskError::Refused(
            String::from_utf8_lossy(reason).into_owned(),
        )),
        _ if process_of(process.first_thread()).is_none() => Err(AskError::NoProcess),
        _ => Ok(()),
    }
}

/// What can be read within a short time: `None` for nothing yet, empty at the end.
fn read_some(from: &OwnedFd) -> Option<Vec<u8>> {
    let mut poll = libc::pollfd {
        fd: from.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut bytes = vec![0; 1024];
    // SAFETY: the kernel writes into one structure, and into `bytes`.
    unsafe {
        if libc::poll(&raw mut poll, 1, 10) <= 0 {
            return None;
        }
        let count = libc::read(from.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len());
        bytes.truncate(usize::try_from(count).unwrap_or(0));
    }
    Some(bytes)
}

/// Whether a stop of a child has not been reported yet.
fn has_report(process: Pid) -> bool {
    wait_for(process, libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT)
}

fn wait_for(process: Pid, how: i32) -> bool {
    let mut info = [0_u64; 16];
    // SAFETY: the kernel writes a siginfo of 128 bytes.
    let result = unsafe {
        libc::waitid(
            libc::P_PID,
            process.get() as libc::id_t,
            info.as_mut_ptr().cast(),
            how,
        )
    };
    result == 0 && info[0] != 0
}

/// Waits until the process has stopped itself again. A parent that had heard of the first stop
/// does not hear of this one.
fn await_stop(process: Pid, report: bool) {
    let deadline = Instant::now() + PATIENCE;
    while matches!(state(process), Some(state) if state != 'T') && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    if !report {
        wait_for(process, libc::WSTOPPED | libc::WNOHANG);
    }
}

/// The right to ask a process: that to the name of a socket, which ends with the descriptor.
pub(super) struct Turn(
    #[expect(dead_code, reason = "held as long as the right is")] Option<OwnedFd>,
);

impl Turn {
    /// Waits for the right, as long as a request can take.
    fn take(process: Pid) -> Turn {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Turn::try_take(process) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                other => return Turn(other.ok()),
            }
            if Instant::now() > deadline {
                return Turn(None);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Binds the name.
    fn try_take(process: Pid) -> io::Result<OwnedFd> {
        let mut address = libc::sockaddr_un {
            sun_family: libc::AF_UNIX as libc::sa_family_t,
            sun_path: [0; 108],
        };
        let name = format!("unspool-detach-{process}");
        // The name begins behind a zero byte: it is in no folder.
        for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let size = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        // SAFETY: the descriptor is nobody else's; the address is as long as it is said to be.
        unsafe {
            let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
            let socket = owned(i64::from(libc::socket(libc::AF_UNIX, kind, 0)))?;
            let bound = libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size as libc::socklen_t,
            );
            if bound == 0 {
                Ok(socket)
            } else {
                Err(io::Error::last_os_error())
            }
        }
    }
}

/// In a process that is let go, after it has stopped to show that it is observed: whoever has
/// still seen that has sent the signal when this returns.
pub(super) fn await_last_request() {
    const LONGEST_BETWEEN_LOOK_AND_SIGNAL: Duration = Duration::from_millis(20);
    if Turn::try_take(Pid::own()).is_err() {
        std::thread::sleep(LONGEST_BETWEEN_LOOK_AND_SIGNAL);
    }
}
