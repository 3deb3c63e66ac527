//! The limits that a process is under.

use std::io;

/// The soft and the hard limit of a resource (`libc::RLIMIT_*`).
///
/// # Errors
/// The kernel's: it does not know the resource.
pub fn get(resource: libc::__rlimit_resource_t) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one structure, and that is what it gets.
    match unsafe { libc::getrlimit(resource, &raw mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}
