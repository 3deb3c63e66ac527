//! Where things lie in the address space that engine and program share.
//!
//! Program code, the code cache and the branch table lie below 2 GiB, so that RIP-relative
//! operands of copied instructions keep fitting in 32 bits, return addresses fit an
//! immediate, and the branch table is reached by an absolute displacement:
//!
//! | from | to | what |
//! |---|---|---|
//! | `0x0001_0000` | `0x1000_0000` | non-PIE programs, at the addresses they ask for |
//! | `0x1000_0000` | `0x2000_0000` | the PIE program |
//! | `0x2000_0000` | `0x4fd0_0000` | the interpreter, libraries, just-in-time code |
//! | `0x4fd0_0000` | `0x4fe8_0000` | a page where nothing is, the chains of hashed branches and returns |
//! | `0x4fe8_0000` | `0x4ff0_0000` | tickets and their locks |
//! | `0x4ff0_0000` | `0x5000_0000` | the program's copy of the vDSO |
//! | `0x5000_0000` | `0x7000_0000` | the code cache |
//! | `0x7000_0000` | `0x7500_0000` | the owner words of the lines below the cache (line-atomic order) |
//! | `0x7500_0000` | `0x2_f500_0000` | the branch table: 8 bytes for each address below the cache |
//! | `0x2_f500_0000` | `0x800_7000_1000` at most | the owner words of all other lines (line-atomic order) |
//!
//! A program that needs the place of the branch table for itself, as the address sanitizer's
//! shadow memory does, runs without one.
//!
//! Everything else (stacks, heaps, anonymous memory) stays where the kernel puts it, apart from
//! the engine's heap, which grows behind its executable.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::reserved;

/// Where tickets are.
pub const TICKETS: u64 = LIBRARY_END - 0x18_0000;
/// Where the program finds its vDSO.
pub const VDSO: u64 = LIBRARY_END - 0x10_0000;
/// Where a position-independent program is put.
pub const PROGRAM_BASE: u64 = 0x1000_0000;
/// Where the interpreter and the libraries are put.
pub const LIBRARY_BASE: u64 = 0x2000_0000;
/// The end of the area for program code.
pub const LIBRARY_END: u64 = 0x5000_0000;
/// Where the code cache starts.
pub const CACHE_BASE: u64 = 0x5000_0000;
/// Bytes of address space for the code cache.
pub const CACHE_SIZE: u64 = 0x2000_0000;
/// The first of what the engine has here: a page that nobody can access, so that an access which
/// begins in program memory does not reach further.
pub const NOWHERE: u64 = LIBRARY_END - 0x30_0000;
/// Where the chains of hashed branches are, 8 bytes for each.
pub const HASHED_BRANCHES: u64 = NOWHERE + 4096;
/// Bytes of the chains.
pub const HASHED_BRANCHES_SIZE: u64 = 8 << 16;
/// Where the chains of hashed returns are, behind those and as many.
pub const HASHED_RETURNS: u64 = HASHED_BRANCHES + HASHED_BRANCHES_SIZE;
/// Where the branch table starts: entry i, 8 bytes, belongs to program address i.
pub const BRANCH_TABLE: u64 = 0x7500_0000;
/// Bytes of address space for the branch table.
pub const BRANCH_TABLE_SIZE: u64 = LIBRARY_END * 8;
/// Where the owner words start: word i, 4 bytes, belongs to line i.
pub const OWNER_WORDS: u64 = 0x7000_0000;
/// Where the owner words end for lines of 64 bytes.
pub const OWNER_WORDS_END: u64 = OWNER_WORDS + (1 << 47 >> 6 << 2) + 4096;
/// Where the program break of a program starts (it grows upwards, alone in its terabyte).
pub const BREAK_BASE: u64 = 0x2b5a_1d00_0000;

/// Reserves the code cache and what belongs to it.
///
/// # Errors
/// The kernel's, for instance where `ulimit -v` is below what the reservation needs.
pub fn reserve() -> io::Result<()> {
    // Tickets and the vDSO's copy are put there later.
    map_fixed(NOWHERE, LIBRARY_END - NOWHERE, libc::PROT_NONE)?;
    reserved::keep(NOWHERE..VDSO);
    map_own(CACHE_BASE, CACHE_SIZE, libc::PROT_NONE)
}

/// Has huge pages put behind a range of the code cache.
pub(crate) fn prefer_huge_pages(range: Range<u64>) {
    // SAFETY: changes no content. Without huge pages the cache works as well.
    unsafe {
        libc::madvise(
            range.start as *mut libc::c_void,
            (range.end - range.start) as usize,
            libc::MADV_HUGEPAGE,
        )
    };
}

/// Lets the engine read and write whole pages of what it has reserved.
pub(crate) fn open(start: u64, size: u64) -> io::Result<()> {
    // SAFETY: takes no access away, and gives none to the program that a wild pointer has not.
    unsafe { protect(start, size, libc::PROT_READ | libc::PROT_WRITE) }
}

/// Has the engine's heap grow where it is. For large blocks the C library asks the kernel for
/// mappings, which would lie in address space that the program has given up, and believes free.
pub(crate) fn keep_heap_together() {
    /// The most that the C library takes for this; larger blocks are mapped all the same.
    const LARGEST: libc::c_int = 32 << 20;
    /// What may be free at the heap's end: not so little that each change asks the kernel.
    const SPARE: libc::c_int = 1 << 20;
    // SAFETY: changes settings.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST);
        libc::mallopt(libc::M_TRIM_THRESHOLD, SPARE);
    }
}

/// Makes a range of the code cache usable.
pub(crate) fn open_cache(range: Range<u64>) -> io::Result<()> {
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: as for `open`.
    unsafe { protect(range.start, range.end - range.start, all) }
}

/// Maps part of a file over a range of the code cache that is usable. Both start at whole pages.
/// What is written there does not reach the file.
///
/// # Safety
/// Nothing may rely on what the range holds.
pub(crate) unsafe fn map_cache(
    address: u64,
    size: u64,
    (file, offset): (BorrowedFd, u64),
) -> io::Result<()> {
    if size == 0 {
        return Ok(());
    }
    // SAFETY: the caller's; the range is the cache's.
    let mapped = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_FIXED,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as in `map_fixed`.
    unsafe { libc::madvise(mapped, size as usize, libc::MADV_DONTDUMP) };
    Ok(())
}

/// Reserves the branch table, without access to it.
///
/// # Errors
/// As [`reserve`].
pub fn reserve_branch_table() -> io::Result<()> {
    map_own(BRANCH_TABLE, BRANCH_TABLE_SIZE, libc::PROT_NONE)
}

/// Has memory put behind the whole pages of a range of the engine's own, all at once. Where the
/// kernel cannot do this, faults do it page by page.
pub(crate) fn populate(range: Range<u64>) {
    const PAGE: u64 = 4096;
    let start = range.start.next_multiple_of(PAGE);
    let end = range.end & !(PAGE - 1);
    if start < end {
        // SAFETY: changes no content.
        unsafe {
            libc::madvise(
                start as *mut libc::c_void,
                (end - start) as usize,
                libc::MADV_POPULATE_WRITE,
            )
        };
    }
}

/// Makes private memory of the engine's own zero again. False: the kernel does not do that.
pub(crate) fn discard(range: Range<u64>) -> bool {
    /// Also where the program has had all memory locked (Linux 5.18).
    const MADV_DONTNEED_LOCKED: libc::c_int = 24;
    [libc::MADV_DONTNEED, MADV_DONTNEED_LOCKED]
        .into_iter()
        .any(|advice| {
            let size = (range.end - range.start) as usize;
            // SAFETY: the caller's own memory, in which nothing else lies.
            unsafe { libc::madvise(range.start as *mut libc::c_void, size, advice) == 0 }
        })
}

/// Changes how whole pages are protected: `mprotect`.
///
/// The C library's function passes the protection on as it gets it, with whatever the caller
/// left in the upper half of the register; the kernel takes all of it and refuses.
///
/// # Safety
/// Nothing may rely on what the protection takes away.
pub(crate) unsafe fn protect(start: u64, size: u64, protection: i32) -> io::Result<()> {
    // SAFETY: the caller's.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mprotect,
            start,
            size,
            libc::c_long::from(protection),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps memory that the engine keeps for itself: see [`map_fixed`].
pub(crate) fn map_own(address: u64, size: u64, protection: i32) -> io::Result<()> {
    map_fixed(address, size, protection)?;
    reserved::keep(address..address + size);
    Ok(())
}

/// Maps zeroed private memory, backed on first use, at exactly `address`.
pub(crate) fn map_fixed(address: u64, size: u64, protection: i32) -> io::Result<()> {
    // SAFETY: MAP_FIXED_NOREPLACE never touches an existing mapping.
    let mapped = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            size as usize,
            protection,
            libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | libc::MAP_NORESERVE
                | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if mapped as u64 != address {
        return Err(io::Error::from_raw_os_error(libc::EEXIST));
    }
    // SAFETY: the range was just mapped by us. Core dumps need not hold it; a failure only makes them larger.
    unsafe { libc::madvise(mapped, size as usize, libc::MADV_DONTDUMP) };
    Ok(())
}
