//! The memory that becomes the program's stack.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::error::LoadError;
use super::layout::{ADDRESSES_END, page_end, page_start};
use super::memory::Reservation;

/// The stack's size where the limit is unlimited.
const UNLIMITED_STACK: u64 = 1 << 30;
/// A mapping of the limit's size that is refused is not tried below this size.
const SMALLEST_STACK: u64 = 8 << 20;
/// What the program can use at least, beyond what the stack starts with.
const STACK_ROOM: u64 = 128 << 10;
/// Pages below the stack that stay inaccessible, as many as the kernel keeps free.
const STACK_GUARD: u64 = 1 << 20;
/// Maps a stack that the program can use, and the guard below it.
pub(crate) fn map_stack(
    path: &Path,
    limit: u64,
    strings_size: u64,
    executable: bool,
) -> Result<(Range<u64>, Reservation), LoadError> {
    let smallest = page_end(strings_size + STACK_ROOM);
    let wanted = if limit == libc::RLIM_INFINITY {
        UNLIMITED_STACK
    } else {
        limit
    };
    let mut size = page_start(wanted.min(ADDRESSES_END)).max(smallest);
    let reservation = loop {
        match Reservation::anywhere(size + STACK_GUARD, libc::MAP_STACK) {
            Ok(reservation) => break reservation,
            Err(_) if size / 2 >= smallest.max(SMALLEST_STACK) => size = page_start(size / 2),
            Err(source) => return Err(stack_error(path, size, source)),
        }
    };
    let stack = reservation.start() + STACK_GUARD..reservation.end();
    let mut protection = libc::PROT_READ | libc::PROT_WRITE;
    if executable {
        protection |= libc::PROT_EXEC;
    }
    reservation
        .protect(stack.start, size, protection)
        .map_err(|source| stack_error(path, size, source))?;
    Ok((stack, reservation))
}

fn stack_error(path: &Path, size: u64, source: io::Error) -> LoadError {
    let operation = "map its stack";
    LoadError::Map {
        path: path.to_owned(),
        operation,
        address: 0,
        size,
        source,
    }
}

/// The soft limit in bytes, or `RLIM_INFINITY`.
pub(crate) fn stack_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one structure, and that is what it gets.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    if result == 0 {
        Ok(limit.rlim_cur)
    } else {
        Err(io::Error::last_os_error())
    }
}
