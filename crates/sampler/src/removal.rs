//! Removes a file where this process cannot any more, because it was killed: a process of its own
//! waits for that, by a pipe of which this one alone has the end that is written to.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A process that removes a file, unless this value is dropped before.
#[derive(Debug)]
pub(crate) struct Removal {
    process: libc::pid_t,
    /// Closed by whatever ends this process.
    _alive: OwnedFd,
}

impl Removal {
    /// Of the file at a path.
    pub(crate) fn of(path: &Path) -> io::Result<Removal> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two numbers, of descriptors that are nobody's yet.
        let [read, alive] = unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                return Err(io::Error::last_os_error());
            }
            ends.map(|end| OwnedFd::from_raw_fd(end))
        };
        // SAFETY: the child makes nothing but system calls, as it must where other threads may have
        // held locks, and ends without returning.
        let process = unsafe {
            match libc::fork() {
                0 => wait_and_remove(&path, read.as_raw_fd()),
                process => process,
            }
        };
        match process {
            -1 => Err(io::Error::last_os_error()),
            process => Ok(Removal {
                process,
                _alive: alive,
            }),
        }
    }
}

/// # Safety
/// The process must be a copy that has only this thread.
unsafe fn wait_and_remove(path: &CString, pipe: i32) -> ! {
    // SAFETY: calls of the kernel with numbers, and memory of this frame.
    unsafe {
        // What is sent to a terminal's or a batch system's group is not for this process.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"slot-removal".as_ptr());
        // Nobody is to wait for an end of its files; nor it for its own end of the pipe.
        libc::dup2(pipe, 0);
        if libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) != 0 {
            (1..1024).for_each(|number| {
                libc::close(number);
            });
        }
        let mut byte = 0_u8;
        while libc::read(0, (&raw mut byte).cast(), 1) < 0 && is_interrupted() {}
        libc::unlink(path.as_ptr());
        libc::_exit(0)
    }
}

fn is_interrupted() -> bool {
    io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

impl Drop for Removal {
    fn drop(&mut self) {
        // SAFETY: a child of this process that it has not waited for.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Nothing but the pipe's end is left of a process that is killed.
    #[test]
    fn a_file_goes_with_the_process_and_stays_without_need() {
        let file = tempfile::NamedTempFile::new().unwrap();
        drop(Removal::of(file.path()).unwrap());
        assert!(file.path().exists());
        let mut removal = Removal::of(file.path()).unwrap();
        let nothing = std::fs::File::open("/dev/null").unwrap();
        removal._alive = nothing.into();
        let start = Instant::now();
        while file.path().exists() {
            assert!(start.elapsed() < Duration::from_secs(10), "it stays");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
