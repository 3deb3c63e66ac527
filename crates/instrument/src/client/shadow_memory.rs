//! What the program unmaps, maps and moves: shadow memory follows.

use std::ops::Range;

use unspool_engine::call::{Call, succeeded};

use crate::shadow::{follow, forget};

const PAGE: u64 = 4096;
/// Addresses that user mode can have lie below this.
const END: u64 = 1 << 47;

/// A system call begins. What it unmaps is forgotten now: another thread may be given that memory
/// before the call is over here.
pub(super) fn asked(call: &Call) {
    let [start, size, ..] = call.arguments;
    let end = start.checked_add(size).filter(|&end| end <= END);
    if let Some(end) = end
        && call.number as i64 == libc::SYS_munmap
        && start.is_multiple_of(PAGE)
    {
        forget(&(start..end.next_multiple_of(PAGE)));
    }
}

/// A system call is over, and has changed what is mapped in some ranges.
pub(super) fn over(call: &Call, result: i64, changed: &[Range<u64>]) {
    let [first, old_size, new_size, ..] = call.arguments;
    match call.number as i64 {
        libc::SYS_mmap | libc::SYS_brk | libc::SYS_shmat | libc::SYS_shmdt => {
            changed.iter().for_each(forget);
        }
        libc::SYS_mremap if succeeded(result) && old_size != 0 => {
            let whole = |size: u64| size.next_multiple_of(PAGE);
            let kept = first + whole(old_size).min(whole(new_size));
            forget(&(kept..first + whole(old_size)));
            if result as u64 != first {
                follow(&(first..kept), result as u64);
            }
        }
        _ => {}
    }
}
