//! How far memory is mapped: the kernel is asked, without touching what may grow when it is touched,
//! and without `/proc`, which may not be there.

use std::ops::Range;

const PAGE: u64 = 4096;

/// Whether every page of a range is mapped, however it is protected. Both ends are at pages.
#[must_use]
pub fn is_mapped(range: Range<u64>) -> bool {
    let size = range.end - range.start;
    let flags = libc::c_long::from(libc::MS_ASYNC);
    // SAFETY: with this flag the kernel does nothing but to look whether all of it is mapped.
    unsafe { libc::syscall(libc::SYS_msync, range.start, size, flags) == 0 }
}

/// Down to where everything is mapped that lies between there and a page's address, at most down to
/// `floor`.
#[must_use]
pub fn lowest_mapped(from: u64, floor: u64) -> u64 {
    search(from / PAGE, floor.div_ceil(PAGE), |pages| {
        is_mapped(pages.start * PAGE..pages.end * PAGE)
    }) * PAGE
}

/// The same in pages: first in steps that double, then by halves of the last one.
fn search(from: u64, floor: u64, is_mapped: impl Fn(Range<u64>) -> bool) -> u64 {
    let mut lowest = from;
    let mut step = 1;
    let mut below = loop {
        if lowest <= floor {
            return lowest;
        }
        let next = lowest.saturating_sub(step).max(floor);
        if !is_mapped(next..lowest) {
            break next;
        }
        lowest = next;
        step *= 2;
    };
    // Not all of what is between is mapped.
    while lowest - below > 1 {
        let middle = below + (lowest - below) / 2;
        match is_mapped(middle..lowest) {
            true => lowest = middle,
            false => below = middle,
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_page_is_found() {
        for lowest in [0, 1, 7, 96, 97, 98, 99, 100] {
            for floor in [0, 5, 97, 100] {
                let is_mapped = |pages: Range<u64>| pages.start >= lowest;
                assert_eq!(
                    search(100, floor, is_mapped),
                    lowest.max(floor),
                    "{lowest} {floor}"
                );
            }
        }
    }

    #[test]
    fn what_lies_behind_a_gap_does_not_count() {
        let is_mapped = |pages: Range<u64>| pages.start >= 90 || pages.end <= 80;
        assert_eq!(search(100, 0, is_mapped), 90);
    }

    #[test]
    fn the_kernel_says_what_is_mapped() {
        let size = 16 * PAGE;
        let protection = libc::PROT_NONE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, which is not accessed.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size as usize,
                protection,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        let start = start as u64;
        let hole = start + 2 * PAGE;
        // SAFETY: it is this test's.
        unsafe { libc::munmap(hole as *mut libc::c_void, PAGE as usize) };
        assert!(!is_mapped(start..start + size));
        assert!(is_mapped(hole + PAGE..start + size));
        assert_eq!(lowest_mapped(start + size, 0), hole + PAGE);
        // SAFETY: as above.
        unsafe { libc::munmap(start as *mut libc::c_void, size as usize) };
    }
}
