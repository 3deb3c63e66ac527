//! Tries what running translated programs asks of memory.

use std::io;

/// Whether memory of a kind is to be had: the number of the error where it is not.
pub type MemoryAccess = Result<(), i32>;

/// Reserves address space of this size, and gives it back.
pub(crate) fn reserve(bytes: u64) -> MemoryAccess {
    let place = map(bytes, libc::PROT_NONE, libc::MAP_NORESERVE)?;
    unmap(place, bytes);
    Ok(())
}

/// Makes memory that was written executable while it stays writable.
pub(crate) fn execute_written() -> MemoryAccess {
    const BYTES: u64 = 4096;
    let place = map(BYTES, libc::PROT_READ | libc::PROT_WRITE, 0)?;
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: memory of this function's own.
    let changed = match unsafe { libc::mprotect(place, 4096, all) } {
        0 => Ok(()),
        _ => Err(last_error()),
    };
    unmap(place, BYTES);
    changed
}

fn map(bytes: u64, protection: i32, flags: i32) -> Result<*mut libc::c_void, i32> {
    let size = usize::try_from(bytes).expect("64 bits");
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: new memory, where the kernel wants it.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
    match place {
        libc::MAP_FAILED => Err(last_error()),
        place => Ok(place),
    }
}

fn unmap(place: *mut libc::c_void, bytes: u64) {
    let size = usize::try_from(bytes).expect("64 bits");
    // SAFETY: what was mapped here before, to which nothing refers.
    unsafe { libc::munmap(place, size) };
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
