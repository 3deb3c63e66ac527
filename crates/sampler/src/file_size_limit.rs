//! The limit of a file's size (`RLIMIT_FSIZE`), which is meant for the program and not for the
//! recording of it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

const UNLIMITED: libc::rlimit = libc::rlimit {
    rlim_cur: libc::RLIM_INFINITY,
    rlim_max: libc::RLIM_INFINITY,
};

/// Lifts the limit of this process as far as it may be lifted, and ignores the signal that tells of
/// it (`SIGXFSZ`), so that a write beyond the limit fails instead of ending this process. The
/// command starts with both as they were.
pub(crate) fn lift(command: &mut Command) {
    let mut limit = UNLIMITED;
    // SAFETY: the kernel writes one structure, or zeros are a value of it; ignoring a signal runs
    // no code of ours.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut ignored: libc::sigaction = std::mem::zeroed();
        ignored.sa_sigaction = libc::SIG_IGN;
        if libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) != 0
            || libc::sigaction(libc::SIGXFSZ, &raw const ignored, &raw mut action) != 0
        {
            return;
        }
        action
    };
    let soft = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    if set(&UNLIMITED).is_err() {
        // Only a privileged user may raise the hard limit. Where the soft one is that already,
        // writing says how far it goes.
        let _ = set(&soft);
    }
    let restore = move || {
        set(&limit)?;
        // SAFETY: what the kernel has given before is given back.
        match unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: two system calls, which any copy of a process may make.
    unsafe { command.pre_exec(restore) };
}

fn set(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: the kernel reads one structure.
    match unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
