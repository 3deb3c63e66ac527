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
//! shadow memory does, runs without one. So does a program that is linked where the code cache
//! would be (more than 1.2 GB of static data), behind which the cache then lies, with what is
//! before it in the table.
//!
//! Everything else (stacks, heaps, anonymous memory) stays where the kernel puts it, apart from
//! the engine's heap, which grows behind its executable.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::reserved;

/// Where a position-independent program is put.
pub const PROGRAM_BASE: u64 = 0x1000_0000;
/// Where the interpreter and the libraries are put.
pub const LIBRARY_BASE: u64 = 0x2000_0000;
/// The end of the area for program code.
pub const LIBRARY_END: u64 = 0x5000_0000;
/// Bytes of address space for the code cache, where the program leaves it as many.
pub const CACHE_SIZE: u64 = 0x2000_0000;
/// Bytes of each of the hashed chains.
pub const HASHED_BRANCHES_SIZE: u64 = 8 << 16;
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

/// Bytes of what lies before the code cache: chains, tickets, the vDSO.
const BEFORE_CACHE: u64 = 0x30_0000;
/// Where the code cache starts: at the end of the area for program code, unless the program is
/// linked there.
static CACHE: AtomicU64 = AtomicU64::new(LIBRARY_END);
/// Bytes of address space that it has.
static CACHE_ROOM: AtomicU64 = AtomicU64::new(CACHE_SIZE);
/// Whether the program is linked where the branch table or owner words would be.
static CROWDED: AtomicBool = AtomicBool::new(false);

/// Where the code cache starts.
#[must_use]
pub fn cache() -> u64 {
    CACHE.load(Ordering::Relaxed)
}

/// Bytes of address space for the code cache.
#[must_use]
pub fn cache_room() -> u64 {
    CACHE_ROOM.load(Ordering::Relaxed)
}

/// Whether the usual places of the branch table and of owner words are free.
#[must_use]
pub fn has_tables() -> bool {
    !CROWDED.load(Ordering::Relaxed)
}

/// The first of what the engine has before the cache: a page that nobody can access, so that an
/// access which begins in program memory does not reach further.
#[must_use]
pub fn nowhere() -> u64 {
    cache() - BEFORE_CACHE
}

/// Where the chains of hashed branches are, 8 bytes for each.
#[must_use]
pub fn hashed_branches() -> u64 {
    nowhere() + 4096
}

/// Where the chains of hashed returns are, behind those and as many.
#[must_use]
pub fn hashed_returns() -> u64 {
    hashed_branches() + HASHED_BRANCHES_SIZE
}

/// Where tickets are.
#[must_use]
pub fn tickets() -> u64 {
    cache() - 0x18_0000
}

/// Where the program finds its vDSO.
#[must_use]
pub fn vdso() -> u64 {
    cache() - 0x10_0000
}

/// Makes room for a program that is linked at these addresses: the code cache goes behind them if
/// they meet its place, and there are no tables if they meet theirs, or if the cache has moved.
/// Called before anything is reserved.
pub fn make_room(program: &[Range<u64>]) {
    let meet = |place: Range<u64>| {
        let mut all = program.iter();
        all.any(|range| range.start < place.end && place.start < range.end)
    };
    let moved = meet(nowhere()..LIBRARY_END + CACHE_SIZE).then(|| room_behind(program));
    if let Some((cache, room)) = moved.flatten() {
        CACHE.store(cache, Ordering::Relaxed);
        CACHE_ROOM.store(room, Ordering::Relaxed);
    }
    let tables = OWNER_WORDS..BRANCH_TABLE + BRANCH_TABLE_SIZE;
    CROWDED.store(moved.is_some() || meet(tables), Ordering::Relaxed);
}

/// Where a code cache fits behind a program, below 2 GiB, and how large it can be.
fn room_behind(program: &[Range<u64>]) -> Option<(u64, u64)> {
    /// Nothing begins below 2 GiB and ends above.
    const END: u64 = 0x7fff_0000;
    const STEP: u64 = 2 << 20;
    /// Less would be emptied all the time.
    const LEAST: u64 = 8 << 20;
    let ends = program.iter().map(|range| range.end);
    let end = ends.filter(|&end| end < END).max()?;
    let cache = (end + BEFORE_CACHE).next_multiple_of(STEP);
    let room = END.checked_sub(cache)?.min(CACHE_SIZE) & !(STEP - 1);
    (room >= LEAST).then_some((cache, room))
}

/// Reserves the code cache and what belongs to it.
///
/// # Errors
/// The kernel's, for instance where `ulimit -v` is below what the reservation needs.
pub fn reserve() -> io::Result<()> {
    // Tickets and the vDSO's copy are put there later.
    map_fixed(nowhere(), BEFORE_CACHE, libc::PROT_NONE)?;
    reserved::keep(nowhere()..vdso());
    map_own(cache(), cache_room(), libc::PROT_NONE)
}

/// Has huge pages put behind a range of the code cache.
pub fn prefer_huge_pages(range: Range<u64>) {
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
pub fn open(start: u64, size: u64) -> io::Result<()> {
    // SAFETY: takes no access away, and gives none to the program that a wild pointer has not.
    unsafe { protect(start, size, libc::PROT_READ | libc::PROT_WRITE) }
}

/// Has the engine's heap grow where it is. For large blocks the C library asks the kernel for
/// mappings, which would lie in address space that the program has given up, and believes free.
pub fn keep_heap_together() {
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

/// Has the heap grow by what the engine may need later, when the kernel may refuse more.
pub fn take_heap_ahead() {
    const AHEAD: usize = 8 << 20;
    // SAFETY: changes a setting, so that the heap keeps what is freed, and frees what it has given.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        // A compiler may leave out memory that is never used.
        libc::free(std::hint::black_box(libc::malloc(AHEAD)));
    }
}

/// Makes a range of the code cache usable.
pub fn open_cache(range: Range<u64>) -> io::Result<()> {
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: as for `open`.
    unsafe { protect(range.start, range.end - range.start, all) }
}

/// Takes from everyone, the engine too, that they can write a range of the code cache.
pub fn close_cache(range: Range<u64>) -> io::Result<()> {
    let run = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: the cache writes nothing there before it has opened it again.
    unsafe { protect(range.start, range.end - range.start, run) }
}

/// Maps part of a file over a range of the code cache that is usable. Both start at whole pages.
/// What is written there does not reach the file.
///
/// # Safety
/// Nothing may rely on what the range holds.
pub unsafe fn map_cache(
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

/// Maps memory anywhere, zeroed and private, backed on first use.
pub fn map_memory(size: u64, protection: i32) -> io::Result<u64> {
    // SAFETY: a new mapping, where nothing is.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    match mapped {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        mapped => Ok(mapped as u64),
    }
}

/// Maps part of a file anywhere, privately and writable. It starts at a whole page.
pub fn map_file((file, offset): (BorrowedFd, u64), size: u64) -> io::Result<u64> {
    // SAFETY: a new mapping, where nothing is.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as in `map_fixed`.
    unsafe { libc::madvise(mapped, size as usize, libc::MADV_DONTDUMP) };
    Ok(mapped as u64)
}

/// Moves whole pages to another place, in place of what is there.
///
/// # Safety
/// Nothing may rely on what either place holds.
pub unsafe fn move_memory(from: u64, size: u64, to: u64) -> io::Result<()> {
    // SAFETY: the caller's.
    let moved = unsafe {
        libc::mremap(
            from as *mut libc::c_void,
            size as usize,
            size as usize,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            to as *mut libc::c_void,
        )
    };
    match moved {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
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
pub fn populate(range: Range<u64>) {
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
pub fn discard(range: Range<u64>) -> bool {
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
pub unsafe fn protect(start: u64, size: u64, protection: i32) -> io::Result<()> {
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
pub fn map_own(address: u64, size: u64, protection: i32) -> io::Result<()> {
    map_fixed(address, size, protection)?;
    reserved::keep(address..address + size);
    Ok(())
}

/// Maps zeroed private memory, backed on first use, at exactly `address`.
pub fn map_fixed(address: u64, size: u64, protection: i32) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_fits_behind_programs_with_much_static_data() {
        const CODE: Range<u64> = 0x40_0000..0x40_1000;
        let behind = |megabytes: u64| room_behind(&[CODE, CODE.end..CODE.end + (megabytes << 20)]);
        assert_eq!(behind(1300), Some((0x51c0_0000, 0x2000_0000)));
        assert_eq!(behind(1900), Some((0x7740_0000, 0x8a0_0000)));
        assert_eq!(behind(2030), Some((0x7f60_0000, 0x80_0000)));
        assert_eq!(behind(2040), None);
    }
}
