//! Where shadow memory lies.

use std::io;
use std::ops::Range;

const TERABYTE: usize = 40;
/// Between the areas in which programs have their code, their heap, and what the kernel places: the
/// engine's code lies at 0x55 terabytes, the program break at 0x2b, mappings below 0x80.
const ROOMS: [Range<u64>; 3] = [0x58..0x7c, 0x2c..0x54, 0x11..0x2a];
/// Bytes without access before it and behind it.
pub(super) const GUARD: usize = 1 << 21;

/// Maps memory of which only touched pages count.
///
/// It is marked as a stack, which never grows because it lies behind pages without access: so the
/// kernel does not count it as data, of which the program may limit how much it has (`RLIMIT_DATA`).
pub(super) fn map(bytes: u64) -> io::Result<u64> {
    let bytes = bytes as usize;
    let room = reserve(bytes + 2 * GUARD)?;
    let flags = libc::MAP_PRIVATE
        | libc::MAP_ANONYMOUS
        | libc::MAP_NORESERVE
        | libc::MAP_FIXED
        | libc::MAP_GROWSDOWN;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: it is a part of what was reserved just now.
    unsafe {
        let start = room.add(GUARD);
        if libc::mmap(start, bytes, access, flags, -1, 0) == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            libc::munmap(room, bytes + 2 * GUARD);
            return Err(error);
        }
        libc::madvise(start, bytes, libc::MADV_DONTDUMP);
        Ok(start as u64)
    }
}

/// Reserves address space in one of the rooms.
fn reserve(length: usize) -> io::Result<*mut libc::c_void> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let mut error = io::Error::from_raw_os_error(libc::ENOMEM);
    for room in ROOMS {
        let last = ((room.end << TERABYTE) as usize).saturating_sub(length);
        for start in room {
            let start = (start << TERABYTE) as usize;
            if start > last {
                break;
            }
            let address = std::ptr::without_provenance_mut(start);
            // SAFETY: a new mapping, where nothing is.
            let found = unsafe { libc::mmap(address, length, libc::PROT_NONE, flags, -1, 0) };
            if found != libc::MAP_FAILED {
                return Ok(found);
            }
            error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EEXIST) {
                return Err(error);
            }
        }
    }
    Err(error)
}
