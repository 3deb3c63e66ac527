//! The kernel's numbers of threads and processes.
//!
//! A process has the number of its first thread, so that a number alone does not say which of the two
//! is meant. Nor is either the number that a thread has in a trace, which is never used again.
//!
//! ```
//! use unspool_kernel::ids::{Pid, Tid};
//!
//! fn signal(process: Pid, thread: Tid) {
//!     // SAFETY: signal 0 only asks.
//!     unsafe { libc::syscall(libc::SYS_tgkill, process.get(), thread.get(), 0) };
//! }
//! signal(Pid::own(), Tid::own());
//! ```
//!
//! One in the place of the other is no call at all:
//!
//! ```compile_fail,E0308
//! use unspool_kernel::ids::{Pid, Tid};
//!
//! fn signal(process: Pid, thread: Tid) {}
//! signal(Tid::own(), Pid::own());
//! ```

use std::fmt;

/// The kernel's id of a thread, in some PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Tid(i32);

/// The kernel's id of a process, in some PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Pid(i32);

impl Tid {
    /// That of the calling thread.
    #[must_use]
    pub fn own() -> Tid {
        // SAFETY: gettid has no preconditions.
        Tid(unsafe { libc::gettid() })
    }

    /// A number that the kernel or the program gives for a thread.
    #[must_use]
    pub const fn of(number: i32) -> Tid {
        Tid(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl Pid {
    /// That of this process. It is asked of the kernel each time: a child that shares the memory has
    /// another one.
    #[must_use]
    pub fn own() -> Pid {
        // SAFETY: getpid has no preconditions.
        Pid(unsafe { libc::getpid() })
    }

    /// Its first thread, which has the same number.
    #[must_use]
    pub const fn first_thread(self) -> Tid {
        Tid(self.0)
    }

    /// A number that the kernel or the program gives for a process.
    #[must_use]
    pub const fn of(number: i32) -> Pid {
        Pid(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pid, Tid};

    #[test]
    fn a_process_has_the_number_of_its_first_thread() {
        let of_thread = std::thread::spawn(Tid::own).join().unwrap();
        assert_ne!(of_thread, Tid::own());
        assert_eq!(Pid::own().first_thread().get(), Pid::own().get());
        assert_eq!(Tid::of(of_thread.get()).to_string(), of_thread.to_string());
    }
}
