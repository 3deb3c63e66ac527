//! Code that changes: translated pages that the program may write are write-protected, and
//! a write makes their translations stale before it happens.

use std::ops::Range;

use crate::process::{Code, Process};

const PAGE: u64 = 4096;
/// How far a fragment can reach from its start: the most instructions times their length.
const FRAGMENT_REACH: u64 = 256 * 15;

/// Prepares the pages at `pc` for being translated: from now on writes to them are noticed.
pub fn watch(code: &mut Code, pc: u64) {
    let mut page = pc & !(PAGE - 1);
    while page < pc + FRAGMENT_REACH {
        let Some((_, region)) = code.regions.find(page) else {
            return;
        };
        let needed = libc::PROT_WRITE | libc::PROT_EXEC;
        if region.protection & needed == needed && code.watched_pages.insert(page) {
            // SAFETY: the page is the program's; a write to it is caught by `handle_write`.
            unsafe {
                libc::mprotect(
                    page as *mut libc::c_void,
                    PAGE as usize,
                    region.protection & !libc::PROT_WRITE,
                )
            };
        }
        if region.protection & libc::PROT_EXEC == 0 {
            return;
        }
        page += PAGE;
    }
}

/// If a fault at `address` is a write to a watched page: makes the page writable again and
/// its translations stale. The faulting instruction is to be repeated.
pub fn handle_write(process: &Process, address: u64, registers: &[i64; 23]) -> bool {
    const WRITE: i64 = 2;
    if registers[libc::REG_ERR as usize] & WRITE == 0 {
        return false;
    }
    let in_engine = !crate::gates::in_cache(registers[libc::REG_RIP as usize] as u64);
    if in_engine && crate::guarded::recover(registers[libc::REG_RIP as usize] as u64).is_none() {
        return false;
    }
    let mut code = process.code();
    release(
        &mut code,
        address & !(PAGE - 1)..(address & !(PAGE - 1)) + PAGE,
    )
}

/// Makes the watched pages of a range writable again and their translations stale.
pub fn release(code: &mut Code, range: Range<u64>) -> bool {
    let pages: Vec<u64> = code
        .watched_pages
        .range(range.start & !(PAGE - 1)..range.end)
        .copied()
        .collect();
    for &page in &pages {
        code.watched_pages.remove(&page);
        code.cache.invalidate(page..page + PAGE);
        if let Some((_, region)) = code.regions.find(page) {
            // SAFETY: the page is the program's and gets the protection that the program asked for.
            unsafe { libc::mprotect(page as *mut libc::c_void, PAGE as usize, region.protection) };
        }
    }
    !pages.is_empty()
}

/// A range of the program's memory was unmapped, replaced or protected anew.
pub fn forget(code: &mut Code, range: Range<u64>) {
    let pages: Vec<u64> = code
        .watched_pages
        .range(range.start & !(PAGE - 1)..range.end)
        .copied()
        .collect();
    for page in pages {
        code.watched_pages.remove(&page);
    }
    code.cache.invalidate(range);
}
